(** * The order of sweeps: what a cache has to load

    [proofs/sweep_order.md].  Items are tiles, or lines, all of one size.  A cache has [C] places.
    A run lists what is accessed, each access with the contents of the cache after it. *)

From mathcomp Require Import all_ssreflect.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Sweeps.
Variables (T : eqType) (C : nat).
Implicit Types (s p q xs A seen : seq T) (run : seq (T * seq T)).

(** Any policy, with bypass: after an access to [x] the cache keeps at most [C] of what it had and
    of [x]. *)
Definition allowed s x s' := [&& uniq s', size s' <= C & all (mem (x :: s)) s'].

Fixpoint valid s run :=
  if run is (x, s') :: run' then allowed s x s' && valid s' run' else true.

Fixpoint misses s run :=
  if run is (x, s') :: run' then (x \notin s) + misses s' run' else 0.

Definition accessed run := map fst run.

Fixpoint final s run := if run is (_, s') :: run' then final s' run' else s.

Lemma misses_cat s r1 r2 : misses s (r1 ++ r2) = misses s r1 + misses (final s r1) r2.
Proof. by elim: r1 s => //= -[x s'] r1 IH s; rewrite IH addnA. Qed.

Lemma valid_cat s r1 r2 : valid s (r1 ++ r2) = valid s r1 && valid (final s r1) r2.
Proof. by elim: r1 s => //= -[x s'] r1 IH s; rewrite IH andbA. Qed.

(** What a cache lacks at first and what is accessed must be missed once. *)
Lemma lacking_missed s run F :
  valid s run -> uniq F -> {subset F <= accessed run} -> {in F, forall x, x \notin s} ->
  size F <= misses s run.
Proof.
elim: run s F => [|[x s'] run IH] s F /=.
  by move=> _ _ sub _; case: F sub => // y F /(_ y (mem_head _ _)).
case/andP=> /and3P[_ _ /allP kept] ok uniqF sub lack.
have uniqR : uniq (rem x F) by rewrite rem_uniq.
have subR : {subset rem x F <= accessed run}.
  move=> y; rewrite mem_rem_uniq // !inE => /andP[neq yF].
  by move: (sub y yF); rewrite /accessed /= in_cons (negbTE neq).
have lackR : {in rem x F, forall y, y \notin s'}.
  move=> y; rewrite mem_rem_uniq // !inE => /andP[neq yF].
  apply/negP=> /kept; rewrite inE in_cons (negbTE neq) /=; exact/negP/lack.
apply: leq_trans (leq_add (leqnn _) (IH _ _ ok uniqR subR lackR)).
have [xF|xF] := boolP (x \in F); last by rewrite rem_id // leq_addl.
by rewrite (lack x xF) size_rem //= add1n; case: (F) xF.
Qed.

Lemma sweep_misses s run A :
  valid s run -> uniq A -> {subset A <= accessed run} ->
  size A - count (mem s) A <= misses s run.
Proof.
move=> ok uniqA sub; rewrite -(count_predC (mem s) A) addKn -size_filter.
apply: lacking_missed ok (filter_uniq _ uniqA) _ _ => x; rewrite mem_filter => /andP[] //.
by move=> _; apply: sub.
Qed.

Lemma valid_final s run :
  valid s run -> uniq s -> size s <= C -> uniq (final s run) /\ size (final s run) <= C.
Proof.
elim: run s => //= -[x s'] run IH s /andP[/and3P[u le _] ok] _ _; exact: IH.
Qed.

Lemma final_seen s run seen :
  valid s run -> {subset s <= seen} -> {subset final s run <= seen ++ accessed run}.
Proof.
elim: run s seen => /= [|[x s'] run IH] s seen; first by rewrite cats0.
case/andP=> /and3P[_ _ /allP kept] ok sub y.
move/(IH s' (rcons seen x) ok); rewrite cat_rcons; apply=> z /kept.
by rewrite mem_rcons !inE => /orP[->|/sub->]; rewrite ?orbT.
Qed.

(** The least that sweeps over the sets [As] miss, when [seen] was accessed before. *)
Fixpoint least seen As :=
  if As is A :: As' then size A - minn C (count (mem seen) A) + least (seen ++ A) As' else 0.

(** Each sweep accesses its set, and nothing else, in any order and any number of times. *)
Definition sweeps_over As runs :=
  all2 (fun A run => uniq A && (all (mem (accessed run)) A && all (mem A) (accessed run))) As runs.

Lemma least_mono As seen seen' : {subset seen <= seen'} -> least seen' As <= least seen As.
Proof.
elim: As seen seen' => //= A As IH seen seen' sub; apply: leq_add.
  apply: leq_sub2l; rewrite leq_min geq_minl; apply: leq_trans (geq_minr _ _) _.
  by apply: sub_count => x /sub.
by apply: IH => x; rewrite !mem_cat => /orP[/sub->|->]; rewrite ?orbT.
Qed.

Lemma sweeps_from s seen As runs :
  uniq s -> size s <= C -> {subset s <= seen} -> sweeps_over As runs ->
  valid s (flatten runs) -> least seen As <= misses s (flatten runs).
Proof.
elim: runs As s seen => [|run runs IH] [|A As] s seen //= us les sub.
case/andP=> /andP[uS /andP[/allP cov /allP onl]] over.
rewrite valid_cat misses_cat => /andP[ok oks]; apply: leq_add.
  apply: leq_trans (sweep_misses ok uS cov); apply: leq_sub2l.
  rewrite leq_min; apply/andP; split; last by apply: sub_count => x /sub.
  rewrite -size_filter; apply: leq_trans les; apply: uniq_leq_size.
    exact: filter_uniq.
  by move=> x; rewrite mem_filter => /andP[].
have [uf lef] := valid_final ok us les.
apply: IH => // x /(final_seen ok sub); rewrite !mem_cat => /orP[->//|/onl xS].
by apply/orP; right.
Qed.

(** ** Any order, any policy *)
Lemma least_missed As runs :
  sweeps_over As runs -> valid [::] (flatten runs) ->
  least [::] As <= misses [::] (flatten runs).
Proof. by move=> over ok; apply: sweeps_from over ok. Qed.

(** ** LRU: the most recent first *)
Definition lru s x := if x \in s then x :: rem x s else take C (x :: s).

Fixpoint lru_run s xs := if xs is x :: xs' then (x, lru s x) :: lru_run (lru s x) xs' else [::].

Lemma take_uniq' n s : uniq s -> uniq (take n s).
Proof. by move=> u; move: u; rewrite -{1}(cat_take_drop n s) cat_uniq => /andP[]. Qed.

Lemma lru_allowed s x : uniq s -> size s <= C -> allowed s x (lru s x).
Proof.
move=> us les; rewrite /lru /allowed; case: ifPn => xs; last first.
  apply/and3P; split; [|by rewrite size_take; case: ltnP => // /ltnW|].
    by apply: take_uniq'; rewrite /= xs.
  by apply/allP=> y /mem_take.
apply/and3P; split=> /=; first by rewrite mem_rem_uniq // inE eqxx rem_uniq.
  by rewrite size_rem //; case: (s) xs les.
rewrite inE eqxx; apply/allP=> y; rewrite mem_rem_uniq // !inE => /andP[_ ->].
by rewrite orbT.
Qed.

Lemma lru_valid s xs : uniq s -> size s <= C -> valid s (lru_run s xs).
Proof.
elim: xs s => //= x xs IH s us les; have := lru_allowed x us les => ok.
by rewrite ok; move: ok => /and3P[u le _]; apply: IH.
Qed.

Lemma accessed_lru s xs : accessed (lru_run s xs) = xs.
Proof. by elim: xs s => //= x xs IH s; rewrite [accessed _]/= -/(accessed _) IH. Qed.

Lemma lru_run_cat s p q : lru_run s (p ++ q) = lru_run s p ++ lru_run (final s (lru_run s p)) q.
Proof. by elim: p s => //= x p IH s; rewrite IH. Qed.

Lemma rem_cat x p q : x \notin p -> rem x (p ++ q) = p ++ rem x q.
Proof. by elim: p => //= y p IH; rewrite inE negb_or eq_sym => /andP[/negbTE-> /IH->]. Qed.

(** What is resident hits, in whatever order. *)
Lemma lru_hits q p s :
  uniq (p ++ q) -> perm_eq s q ->
  misses (rev p ++ s) (lru_run (rev p ++ s) q) = 0 /\
  final (rev p ++ s) (lru_run (rev p ++ s) q) = rev (p ++ q).
Proof.
elim: q p s => [|x q IH] p s /=.
  by rewrite cats0 => _ /perm_size/size0nil->; rewrite cats0.
rewrite -cat_rcons => u perm.
have xs : x \in s by rewrite (perm_mem perm) mem_head.
have xp : x \notin rev p.
  by move: u; rewrite cat_rcons cat_uniq mem_rev /= negb_or => /and3P[_ /andP[->]].
have step : lru (rev p ++ s) x = rev (rcons p x) ++ rem x s.
  by rewrite /lru mem_cat xs orbT rem_cat // rev_rcons.
rewrite step mem_cat xs orbT add0n; apply: IH => //.
by rewrite -(perm_cons x); apply: perm_trans perm; rewrite perm_sym perm_to_rem.
Qed.

Lemma take_cons_take x s : take C (x :: take C s) = take C (x :: s).
Proof. by case: C => //= n; rewrite take_take. Qed.

(** What was not accessed before is missed. *)
Lemma lru_loads q s :
  uniq q -> {in q, forall x, x \notin take C s} ->
  misses (take C s) (lru_run (take C s) q) = size q /\
  final (take C s) (lru_run (take C s) q) = take C (rev q ++ s).
Proof.
elim: q s => //= x q IH s /andP[xq uq] new.
have xs := new x (mem_head _ _).
rewrite /lru (negbTE xs) take_cons_take /=.
have [|m f] := IH (x :: s) uq; last by rewrite m f rev_cons cat_rcons add1n.
move=> y yq; apply/negP; rewrite -take_cons_take => /mem_take.
rewrite inE => /orP[/eqP eq|]; first by rewrite -eq yq in xq.
by apply/negP/new; rewrite inE yq orbT.
Qed.

Lemma final_cat s r1 r2 : final s (r1 ++ r2) = final (final s r1) r2.
Proof. by elim: r1 s => //= -[? ?] r1 IH s. Qed.

(** A sweep that begins with what is resident misses the rest. *)
Lemma lru_sweep s q1 q2 :
  uniq (q1 ++ q2) -> size s <= C -> perm_eq s q1 ->
  misses s (lru_run s (q1 ++ q2)) = size q2 /\
  final s (lru_run s (q1 ++ q2)) = take C (rev (q1 ++ q2)).
Proof.
rewrite cat_uniq => /and3P[u1 /hasPn apart u2] les perm.
have [|] := @lru_hits q1 [::] s _ perm; first by rewrite cat0s.
rewrite /= => m f; rewrite lru_run_cat misses_cat final_cat f m add0n.
have full : take C (rev q1) = rev q1.
  by rewrite take_oversize // size_rev -(perm_size perm).
have [|] := @lru_loads q2 (rev q1) u2.
  by move=> x xq; rewrite full mem_rev; apply: apart.
by rewrite full rev_cat => -> ->.
Qed.

(** Each sweep begins with the [C] items that the one before it ended with, in any order. *)
Fixpoint handed s qs :=
  if qs is q :: qs' then
    [&& uniq q, C <= size q, perm_eq s (take (size s) q) & handed (take C (rev q)) qs']
  else true.

Lemma lru_handed s qs :
  size s <= C -> handed s qs ->
  misses s (lru_run s (flatten qs)) =
  if qs is q :: qs' then size q - size s + sumn [seq size q - C | q <- qs'] else 0.
Proof.
elim: qs s => //= q qs IH s les /and4P[uq leq perm han].
have split := cat_take_drop (size s) q.
have [|m f] := @lru_sweep s (take (size s) q) (drop (size s) q) _ les perm.
  by rewrite split.
rewrite split in m f; rewrite lru_run_cat misses_cat m f size_drop.
have sizes : size (take C (rev q)) = C by rewrite size_takel // size_rev.
rewrite IH ?sizes //; congr (_ + _).
by case: (qs) => //= r rs; rewrite sizes.
Qed.

Lemma least_handed q qs seen :
  C <= size q -> {subset q <= seen} -> handed (take C (rev q)) qs ->
  least seen qs = sumn [seq size q - C | q <- qs].
Proof.
elim: qs q seen => //= r qs IH q seen leq sub /and4P[ur ler perm han].
have sizes : size (take C (rev q)) = C by rewrite size_takel // size_rev.
rewrite (IH r) //; last by move=> x xr; rewrite mem_cat xr orbT.
congr (_ - _ + _); apply/minn_idPl.
rewrite -size_filter -{1}sizes; apply: uniq_leq_size.
  by rewrite (perm_uniq perm) take_uniq.
move=> x xs; rewrite mem_filter; apply/andP; split.
  by apply: sub; rewrite -mem_rev; apply: mem_take xs.
by move: xs; rewrite (perm_mem perm) => /mem_take.
Qed.

(** LRU then misses the least. *)
Lemma handed_misses qs :
  handed [::] qs -> misses [::] (lru_run [::] (flatten qs)) = least [::] qs.
Proof.
move=> han; rewrite lru_handed //; case: qs han => //= q qs /and4P[uq leq _ han].
by rewrite count_pred0 minn0 subn0 (least_handed leq _ han).
Qed.

(** ** Alternating order: every second sweep is reversed *)
Fixpoint alternate n q := if n is n'.+1 then q :: alternate n' (rev q) else [::].

Lemma handed_alternate n q : uniq q -> C <= size q -> handed (take C q) (alternate n q).
Proof.
elim: n q => //= n IH q uq leq; rewrite uq leq size_takel // perm_refl /=.
by apply: IH; rewrite ?rev_uniq ?size_rev.
Qed.

(** The law of alternating order: [L + (n - 1) (L - C)]. *)
Lemma alternate_misses n q :
  uniq q -> C <= size q ->
  misses [::] (lru_run [::] (flatten (alternate n.+1 q))) = size q + n * (size q - C).
Proof.
move=> uq leq; rewrite lru_handed //=; last first.
  rewrite uq leq take0 perm_refl /=; apply: handed_alternate; by rewrite ?rev_uniq ?size_rev.
rewrite subn0; congr (_ + _); elim: n q {uq leq} => //= n IH q.
by rewrite size_rev mulSn; congr (_ + _); rewrite IH size_rev.
Qed.

(** No order and no policy does better. *)
Lemma alternate_bound n (A : seq T) runs :
  sweeps_over (nseq n.+1 A) runs -> valid [::] (flatten runs) ->
  size A + n * (size A - C) <= misses [::] (flatten runs).
Proof.
move=> over ok; apply: leq_trans (least_missed over ok).
rewrite /= count_pred0 minn0 subn0 leq_add2l.
have more m seen : m * (size A - C) <= least seen (nseq m A); last exact: more.
elim: m seen => //= m IH seen; rewrite mulSn; apply: leq_add; last exact: IH.
by apply: leq_sub2l; apply: geq_minl.
Qed.

(** ** Cyclic order: LRU misses everything *)
Lemma cyclic_sweep p r :
  uniq (p ++ r) -> C < size (p ++ r) ->
  let s := take C (rev p ++ rev (p ++ r)) in
  misses s (lru_run s r) = size r /\ final s (lru_run s r) = take C (rev (p ++ r) ++ rev (p ++ r)).
Proof.
elim: r p => [|x r IH] p u lt s; first by rewrite /= /s cats0.
have [||m f] := IH (rcons p x); rewrite ?cat_rcons //.
have xs : x \notin s.
  have le : C <= size (rev p ++ rev r).
    by move: lt; rewrite !size_cat !size_rev /= addnS ltnS.
  rewrite /s rev_cat rev_cons -cats1 -!catA catA takel_cat //.
  apply/negP=> /mem_take; rewrite mem_cat !mem_rev; apply/negP; rewrite negb_or.
  by move: u; rewrite cat_uniq /= negb_or => /and3P[_ /andP[-> _] /andP[-> _]].
have step : lru s x = take C (rev (rcons p x) ++ rev (p ++ x :: r)).
  by rewrite /lru (negbTE xs) take_cons_take rev_rcons.
by rewrite cat_rcons in m f; rewrite /= xs step m f add1n.
Qed.

Lemma cyclic_misses n q :
  uniq q -> C < size q -> misses [::] (lru_run [::] (flatten (nseq n q))) = n * size q.
Proof.
move=> uq lt; case: n => //= n; rewrite lru_run_cat misses_cat.
have [//|m f] := @lru_loads q [::] uq; rewrite /= cats0 in m f.
rewrite m f mulSn; congr (_ + _); elim: n => //= n IH.
have [m' f'] := @cyclic_sweep [::] q uq lt; rewrite /= in m' f'.
rewrite lru_run_cat misses_cat m' f' mulSn takel_cat ?IH //.
by rewrite size_rev ltnW.
Qed.

(** ** Sets that grow: a causal mask, rows in order *)
Fixpoint growing q news :=
  if news is e :: news' then q :: growing (rev q ++ e) news' else [:: q].

Lemma handed_growing s q news :
  uniq (q ++ flatten news) -> C <= size q -> perm_eq s (take (size s) q) ->
  handed s (growing q news).
Proof.
elim: news s q => [|e news IH] s q /=; rewrite ?cats0 => u le perm.
  by rewrite u le perm.
have [uq _] := andP (etrans (esym (cat_uniq _ _)) u); rewrite uq le perm /=.
apply: IH; last by rewrite size_takel ?size_rev // takel_cat ?size_rev.
  by rewrite -catA cat_uniq rev_uniq (eq_has (mem_rev q)) -cat_uniq.
by rewrite size_cat size_rev (leq_trans le) ?leq_addr.
Qed.

(** Each sweep is the one before it reversed, then what is new. *)
Lemma growing_misses q news :
  uniq (q ++ flatten news) -> C <= size q ->
  misses [::] (lru_run [::] (flatten (growing q news))) = least [::] (growing q news).
Proof. by move=> u le; apply/handed_misses/handed_growing; rewrite ?take0. Qed.
End Sweeps.
