(** * The classes of [classes.v] contain each other, and the schedules of [model.v] *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model classes.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Lemma rem_map (T U : eqType) (g : T -> U) s x : injective g -> rem (g x) (map g s) = map g (rem x s).
Proof. by move=> inj; elim: s => //= y s ->; rewrite inj_eq //; case: eqP. Qed.

Lemma perm_rem_ (T : eqType) (r s : seq T) x : x \in r -> perm_eq r s -> perm_eq (rem x r) (rem x s).
Proof.
move=> xr pe; have xs : x \in s by rewrite -(perm_mem pe).
rewrite -(perm_cons x); apply: perm_trans (_ : perm_eq r _); first by rewrite perm_sym perm_to_rem.
by apply: perm_trans pe _; apply: perm_to_rem.
Qed.

Section Inclusions.
Variables (word product : eqType) (M : nat) (t : task word product).
Implicit Types (s : state word product) (m : memory word product) (dn : seq product).

(** What is allowed in a class is allowed in a larger one. *)
Lemma attains_sub c c' ops : (again c -> again c') -> (adds c -> adds c') ->
  attains c M t ops -> attains c' M t ops.
Proof.
move=> ag ad; rewrite /attains.
have goes m o m' : go c M t m o = Some m' -> go c' M t m o = Some m'.
  case: o => [v|v|v|v x|p T x|w T U x] //=.
    case: ifP => // /and5P[-> al -> -> ->] /= <-.
    by case/orP: al => [/ag->|->]; rewrite ?orbT.
  by case: ifP => // /and4P[/ad-> -> -> ->].
suff run m m' : moves c M t m ops = Some m' -> moves c' M t m ops = Some m'.
  by case e: (moves c M t _ ops) => [m'|//]; rewrite (run _ _ e).
elim: ops m => //= o ops IH m; case e: (go c M t m o) => [m1|//] /IH.
by rewrite (goes _ _ _ e).
Qed.

(** The value that a word of [model.v] has after the products [dn]. *)
Definition terms dn w := [seq p <- dn | sum t p == w].
Definition value_of dn w : value word product :=
  if has (fun p => sum t p == w) dn then Part w (terms dn w) else Input product w.

Lemma value_inj dn : injective (value_of dn).
Proof.
pose f (v : value word product) := match v with inl w => w | inr (w, _) => w end.
by apply: (can_inj (g := f)) => w; rewrite /value_of; case: has.
Qed.

Lemma value_whole dn w : all (fun p => (sum t p == w) ==> (p \in dn)) (products t) ->
  whole t w (value_of dn w).
Proof.
move=> /allP fin; rewrite /value_of; case: has => /=; rewrite eqxx //=.
apply/allP => p pin; apply/implyP => ew; have := fin p pin; rewrite ew /= => pdn.
by rewrite mem_filter ew.
Qed.

Definition same s m :=
  [/\ uniq (fast s), perm_eq (near m) (map (value_of (done s)) (fast s)),
      {in slow s, forall w, value_of (done s) w \in far m} & past m = done s].

Lemma same_in s m w : same s m -> w \in fast s -> value_of (done s) w \in near m.
Proof. by case=> _ /perm_mem eq _ _ win; rewrite eq map_f. Qed.

(** A product that may be executed there may be executed here. *)
Lemma same_do s m p : same s m -> ready t s p -> let w := sum t p in let dn := done s in
  [/\ (started t s w -> w \in fast s) ->
      [&& p \in products t, again single || (p \notin past m),
        has (whole t (left t p)) (near m), has (whole t (right t p)) (near m),
        p \notin terms dn w & (terms dn w == [::]) || (Part w (terms dn w) \in near m)] = true,
      value_of (p :: dn) w = Part w (p :: terms dn w),
      forall l, w \notin l -> map (value_of (p :: dn)) l = map (value_of dn) l &
      {in filter (predC1 w) (slow s), forall u, value_of (p :: dn) u \in far m}].
Proof.
move=> sm /and5P[pin nd lin lf /andP[rin rf]] w dn; have [un pe sl pt] := sm.
have old u : u != w -> value_of (p :: dn) u = value_of dn u.
  by rewrite eq_sym => /negPf ne; rewrite /value_of /terms /= -/w ne.
split=> [room||l nin|u].
- rewrite pin pt nd mem_filter (negPf nd) andbF /=; apply/and3P; split.
  + by apply/hasP; exists (value_of dn (left t p)); [apply: same_in | apply: value_whole].
  + by apply/hasP; exists (value_of dn (right t p)); [apply: same_in | apply: value_whole].
  rewrite -[_ == _]negbK -has_filter; case: (boolP (has _ _)) => //= st.
  by have := same_in sm (room st); rewrite /value_of -/dn st.
- by rewrite /value_of /terms /= eqxx.
- by apply/eq_in_map => u uin; apply: old; apply: contraNneq nin => <-.
by rewrite mem_filter => /andP[ne uin]; rewrite old //; apply: sl.
Qed.

Lemma same_step s m o s' : same s m -> step M t s o = Some s' ->
  exists mv m', [/\ go single M t m mv = Some m', same s' m' &
                    traffic [:: mv] = cost [:: o]].
Proof.
move=> sm; have [un pe sl pt] := sm; have sz := perm_size pe; rewrite size_map in sz.
case: o => [w|w|w|p|p x] /=; case: ifP => //.
- case/and3P => win nin lt [<-].
  exists (Read (value_of (done s) w)), (Memory (value_of (done s) w :: near m) (far m) (past m)).
  rewrite /= sl // sz lt; split=> //; split=> //=; first by rewrite nin.
  by rewrite perm_cons.
- move=> win [<-].
  exists (Write (value_of (done s) w)), (Memory (near m) (value_of (done s) w :: far m) (past m)).
  rewrite /= (same_in sm win); split=> //; split=> //= u; rewrite inE => /orP[/eqP->|/sl uin].
    by rewrite mem_head.
  by rewrite inE uin orbT.
- move=> win [<-].
  exists (Free (value_of (done s) w)), (Memory (rem (value_of (done s) w) (near m)) (far m) (past m)).
  rewrite /= (same_in sm win); split=> //; split=> //=; first exact: rem_uniq.
  by rewrite -(rem_map _ _ (@value_inj _)); apply: perm_rem_ pe; apply: same_in win.
- case/andP => rd room [<-].
  have [cond new rest sl'] := same_do sm rd.
  exists (Mul p (terms (done s) (sum t p)) (if sum t p \in fast s then Some (value_of (done s) (sum t p)) else None)).
  rewrite /= cond; last first.
    by move=> st; case/orP: room => // /andP[/negP[]].
  have [win|nin] := boolP (sum t p \in fast s).
    rewrite /put (same_in sm win); eexists; split; [reflexivity | | by []].
    split=> //=; last by rewrite pt.
    apply: perm_trans (_ : perm_eq _ (map (value_of (p :: done s)) (sum t p :: rem (sum t p) (fast s)))) _.
      rewrite /= new perm_cons rest; last by rewrite mem_rem_uniq // inE eqxx.
      by rewrite -(rem_map _ _ (@value_inj _)); apply: perm_rem_ pe; apply: same_in win.
    by apply: perm_map; rewrite perm_sym perm_to_rem.
  have lt : size (near m) < M by move: room; rewrite (negPf nin) sz => /andP[].
  rewrite /put lt; eexists; split; [reflexivity | | by []].
  split=> //=; [by rewrite nin | | by rewrite pt].
  by rewrite new perm_cons rest.
case/and4P => rd xin nin nst [<-].
have [cond new rest sl'] := same_do sm rd.
have xfast : x \in fast s.
  by case/and5P: rd => _ _ lin _ /andP[rin _]; move: xin; rewrite !inE => /orP[]/eqP->.
exists (Mul p (terms (done s) (sum t p)) (Some (value_of (done s) x))).
rewrite /= cond; last by move=> st; case/negP: nst.
rewrite /put (same_in sm xfast); eexists; split; [reflexivity | | by []].
split=> //=; [| | by rewrite pt].
  by rewrite rem_uniq // andbT; apply: contra nin => /mem_rem.
rewrite new perm_cons rest; last by apply: contra nin => /mem_rem.
by rewrite -(rem_map _ _ (@value_inj _)); apply: perm_rem_ pe; apply: same_in xfast.
Qed.

Lemma same_run s m ops s' : same s m -> run M t s ops = Some s' ->
  exists ops' m', [/\ moves single M t m ops' = Some m', same s' m' & traffic ops' = cost ops].
Proof.
elim: ops s m => [|o ops IH] s m sm /=; first by case=> <-; exists [::], m.
case e: (step M t s o) => [s1|//] r1; have [mv [m1 [g1 sm1 t1]]] := same_step sm e.
have [ops' [m' [r' sm' t']]] := IH s1 m1 sm1 r1.
exists (mv :: ops'), m'; split=> //=; first by rewrite g1.
by move: t1; rewrite /traffic /cost /= !addn0 => ->; congr (_ + _).
Qed.

Theorem once_single ops : computes M t ops ->
  exists2 ops', attains single M t ops' & traffic ops' = cost ops.
Proof.
rewrite /computes; case e: (run M t (start t) ops) => [s|//] /andP[/allP dn /allP out].
have sm : same (start t) (begin t).
  by split=> //= w win; rewrite /value_of /=; apply: map_f.
have [ops' [m' [r' [_ _ sl _] t']]] := same_run sm e.
exists ops' => //; rewrite /attains r'; apply/allP => w /out wsl; apply/hasP.
exists (value_of (done s) w); first exact: sl.
by apply: value_whole; apply/allP => p /dn pin; apply/implyP.
Qed.

End Inclusions.
