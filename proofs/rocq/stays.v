(** * Stays: schedules of [classes.v], position by position

    How words get into fast memory, where the terms of a sum are, and that events
    (reads, and fresh starts of stays in which the word is written) are no more
    than transfers: sections 7 and 8 of [proofs/constant_tight.md]. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments classes.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Stays.
Variables word product : eqType.
Variables (c : class) (M : nat) (t : task word product) (ops : seq (move word product)).
Variable o0 : move word product.
Hypothesis ok : attains c M t ops.

Local Notation n := (size ops).
Local Notation value := (value word product).

(** The memory before move [k], and move [k]. *)
Definition at_ k : memory word product :=
  odflt (begin t) (moves c M t (begin t) (take k ops)).
Definition op_ k := nth o0 ops k.

Lemma moves_cat m a b :
  moves c M t m (a ++ b) = obind (fun m' => moves c M t m' b) (moves c M t m a).
Proof. by elim: a m => //= o a IH m; case: go => //=. Qed.

Lemma at0 : at_ 0 = begin t.
Proof. by rewrite /at_ take0. Qed.

Lemma moves_end : moves c M t (begin t) ops = Some (at_ n).
Proof. by move: ok; rewrite /attains /at_ take_size; case: moves. Qed.

Lemma atS k : k < n -> go c M t (at_ k) (op_ k) = Some (at_ k.+1).
Proof.
move=> lt; rewrite /at_ (take_nth o0) // -/(op_ k) -cats1 moves_cat.
have := moves_end; rewrite -{1}(cat_take_drop k ops) moves_cat (drop_nth o0 lt) -/(op_ k).
by case: (moves c M t (begin t) (take k ops)) => //= m; case: (go c M t m (op_ k)).
Qed.

Lemma all_out w : w \in outputs t -> has (whole t w) (far (at_ n)).
Proof. by move: ok; rewrite /attains moves_end => /allP; apply. Qed.

(** ** One move *)

Lemma putP (m m' : memory word product) x v ps : put M m x v ps = Some m' ->
  [/\ far m' = far m, past m' = ps, v \in near m',
      {subset near m' <= v :: near m} & size (near m) <= M -> size (near m') <= M].
Proof.
rewrite /put; case: x => [x|]; case: ifP => // xin [<-] /=; split=> //; rewrite ?mem_head //.
- by move=> u; rewrite !inE => /orP[->//|/mem_rem->]; rewrite orbT.
- by rewrite size_rem // => le; rewrite prednK //; case: (near m) xin.
Qed.

(** The value that a move makes in fast memory. *)
Definition result (o : move word product) : option value :=
  match o with
  | Read v => Some v | Copy v _ => Some v | Mul p T _ => Some (Part (sum t p) (p :: T))
  | Add w T U _ => Some (Part w (T ++ U)) | _ => None
  end.

Definition does p (o : move word product) := if o is Mul q _ _ then q == p else false.

Lemma doesP p o : reflect (exists T x, o = Mul p T x) (does p o).
Proof.
apply: (iffP idP) => [|[T [x ->]] /=]; last exact: eqxx.
by case: o => //= q T x /eqP->; exists T, x.
Qed.

Lemma moveP k : k < n -> let m := at_ k in let m' := at_ k.+1 in
  [/\ forall v, v \in near m' -> v \in near m \/ result (op_ k) = Some v,
      forall v, result (op_ k) = Some v -> v \in near m',
      forall v, v \in far m' -> v \in far m \/ op_ k = Write v,
      past m' = (if op_ k is Mul p _ _ then p :: past m else past m) &
      size (near m) <= M -> size (near m') <= M].
Proof.
move=> lt m m'; have := atS lt; rewrite -/m -/m' /go.
have goput x v ps : put M m x v ps = Some m' -> result (op_ k) = Some v ->
    past m' = (if op_ k is Mul p _ _ then p :: past m else past m) ->
    [/\ forall v, v \in near m' -> v \in near m \/ result (op_ k) = Some v,
        forall v, result (op_ k) = Some v -> v \in near m',
        forall v, v \in far m' -> v \in far m \/ op_ k = Write v,
        past m' = (if op_ k is Mul p _ _ then p :: past m else past m) &
        size (near m) <= M -> size (near m') <= M].
  move=> /putP[ef _ vin sub sz] -> ->; split=> // [u /sub|u [<-]|u] //; last by rewrite ef; left.
  by rewrite inE => /orP[/eqP->|]; [right | left].
case o: (op_ k) goput => [v|v|v|v x|p T x|w T U x] goput; case: ifP => // cond eq.
- by apply: (goput _ _ _ eq) => //; case: (putP eq).
- case: eq => <- /=; split=> //; first by left.
  by move=> u; rewrite inE => /orP[/eqP->|]; [right | left].
- case: eq => <- /=; split=> //; [by move=> u /mem_rem; left | by left |].
  by move=> le; rewrite size_rem // (leq_trans _ le) // leq_pred.
- by apply: (goput _ _ _ eq) => //; case: (putP eq).
- by apply: (goput _ _ _ eq) => //; case: (putP eq).
by apply: (goput _ _ _ eq) => //; case: (putP eq).
Qed.

Lemma op_read k v : k < n -> op_ k = Read v -> v \in far (at_ k).
Proof. by move=> lt o; have := atS lt; rewrite o /=; case: ifP. Qed.

Lemma op_write k v : k < n -> op_ k = Write v -> v \in near (at_ k).
Proof. by move=> lt o; have := atS lt; rewrite o /=; case: ifP. Qed.

Lemma op_copy k v x : k < n -> op_ k = Copy v x -> v \in near (at_ k).
Proof. by move=> lt o; have := atS lt; rewrite o /=; case: ifP. Qed.

Lemma op_mul k p T x : k < n -> op_ k = Mul p T x ->
  [/\ p \in products t, again c || (p \notin past (at_ k)), has (whole t (left t p)) (near (at_ k)),
      has (whole t (right t p)) (near (at_ k)) & (T == [::]) || (Part (sum t p) T \in near (at_ k))].
Proof. by move=> lt o; have := atS lt; rewrite o /=; case: ifP => // /and5P[? ? ? ? /andP[]]. Qed.

Lemma op_add k w T U x : k < n -> op_ k = Add w T U x ->
  Part w T \in near (at_ k) /\ Part w U \in near (at_ k).
Proof. by move=> lt o; have := atS lt; rewrite o /=; case: ifP => // /and4P[]. Qed.

Lemma near_size k : k <= n -> size (near (at_ k)) <= M.
Proof.
elim: k => [|k IH] le; first by rewrite at0.
by have [_ _ _ _] := moveP le; apply; apply/IH/ltnW.
Qed.

Lemma pastP p k : k <= n -> reflect (exists2 j, j < k & does p (op_ j)) (p \in past (at_ k)).
Proof.
move=> le; apply: (iffP idP).
- elim: k le => [|k IH] lt; first by rewrite at0.
  have [_ _ _ -> _] := moveP lt; have {}IH := IH (ltnW lt).
  case o: op_ => [v|v|v|v x|q T x|w T U x];
    try by move=> /IH[j ltj]; exists j => //; apply: ltnW.
  rewrite inE => /orP[/eqP-> | /IH[j ltj]]; first by exists k => //; rewrite o /= eqxx.
  by exists j => //; apply: ltnW.
case=> j ltjk /doesP[T [x oj]]; elim: k le ltjk => // k IH lt.
have [_ _ _ -> _] := moveP lt; rewrite ltnS leq_eqVlt => /orP[/eqP<- | ltjk].
  by rewrite oj mem_head.
by case: op_ => [v|v|v|v y|q T' y|w T' U y]; rewrite ?inE IH ?orbT // ltnW.
Qed.

(** What values there are. *)
Definition sound k (v : value) :=
  match v with
  | inl w => w \in inputs t
  | inr (w, T) => all (fun p => [&& p \in products t, sum t p == w & p \in past (at_ k)]) T
  end.

Lemma sound_all k v : k <= n -> v \in near (at_ k) ++ far (at_ k) -> sound k v.
Proof.
elim: k v => [|k IH] v le.
  by rewrite at0 /= => /mapP[w win ->].
have [nr _ fr pt _] := moveP le; have {}IH u := IH u (ltnW le).
have keep u : u \in near (at_ k) ++ far (at_ k) -> sound k.+1 u.
  move/IH; case: u => //= -[w T]; apply: sub_all => p /and3P[-> -> /=].
  by rewrite pt; case: op_ => // q _ _ pin; rewrite inE pin orbT.
have innear u : u \in near (at_ k) -> sound k.+1 u by move=> uin; apply: keep; rewrite mem_cat uin.
have infar u : u \in far (at_ k) -> sound k.+1 u.
  by move=> uin; apply: keep; rewrite mem_cat uin orbT.
rewrite mem_cat => /orP[/nr[/innear//|]|/fr[/infar//|o]]; last exact/innear/op_write.
case o: op_ => [u|u|u|u x|p T x|w T U x] //= [<-].
- exact/infar/op_read.
- exact/innear/(op_copy le o).
- have [pin _ _ _ Tin] := op_mul le o.
  apply/andP; split; first by rewrite pin eqxx pt o mem_head.
  by case/orP: Tin => [/eqP->//|/innear].
have [/innear sT /innear sU] := op_add le o.
by rewrite /Part /= all_cat; apply/andP; split.
Qed.

Lemma near_sound k v : k <= n -> v \in near (at_ k) -> sound k v.
Proof. by move=> le vin; apply: sound_all; rewrite ?mem_cat ?vin. Qed.

(** ** Which words are in fast memory *)

Definition name (v : value) := match v with inl w => w | inr (w, _) => w end.
Definition here k := map name (near (at_ k)).

Lemma whole_name w v : whole t w v -> name v = w.
Proof. by case: v => [u|[u T]] /= => [/eqP|/andP[/eqP]]. Qed.

Lemma whole_here w k : has (whole t w) (near (at_ k)) -> w \in here k.
Proof. by move=> /hasP[v vin /whole_name <-]; apply: map_f. Qed.

Definition reads w (o : move word product) := if o is Read v then name v == w else false.
Definition writes w (o : move word product) := if o is Write v then name v == w else false.

Lemma writes_inj w v o : writes w o -> writes v o -> w = v.
Proof. by case: o => //= u /eqP<- /eqP. Qed.

Definition starts w k := exists2 p, does p (op_ k) & sum t p = w /\ w \notin here k.

Lemma here_step k w : k < n -> w \in here k.+1 ->
  [\/ w \in here k, reads w (op_ k) | starts w k].
Proof.
move=> lt /mapP[v vin ->]; have [nr _ _ _ _] := moveP lt.
have [|nin] := boolP (name v \in here k); first by constructor 1.
have old u : u \in near (at_ k) -> name u = name v -> False.
  by move=> uin eu; move: nin; rewrite -eu map_f.
case: (nr v vin) => [/old []//|]; case o: op_ => [u|u|u|u x|p T x|w' T U x] //= [ev].
- by constructor 2; rewrite ev eqxx.
- by case: (old u (op_copy lt o)); rewrite ev.
- by constructor 3; exists p; rewrite ?o /= ?eqxx -?ev //; split=> //; move: nin; rewrite -ev.
by have [/old[]] := op_add lt o; rewrite -ev.
Qed.

(** The present stay of a word: since [s], or since a move after [s]. *)
Lemma stay s k w : s <= k <= n -> w \in here k ->
  (forall i, s <= i <= k -> w \in here i) \/
  exists j, [/\ s <= j < k, w \notin here j, forall i, j < i <= k -> w \in here i &
                reads w (op_ j) \/ starts w j].
Proof.
case/andP; elim: k => [|k IH].
  by rewrite leqn0 => /eqP-> _ win; left => i; rewrite leqn0 => /andP[_ /eqP->].
rewrite leq_eqVlt => /orP[/eqP-> | ].
  by move=> _ win; left => i; rewrite -eqn_leq => /eqP<-.
rewrite ltnS => le lt win; have [hk|nk] := boolP (w \in here k).
  case: (IH le (ltnW lt) hk) => [al|[j [/andP[lej ltj] nj al how]]].
    by left => i /andP[lei]; rewrite leq_eqVlt => /orP[/eqP->//|ltik]; apply: al; rewrite lei.
  right; exists j; split=> //; first by rewrite lej ltnW.
  by move=> i /andP[lei]; rewrite leq_eqVlt => /orP[/eqP->//|ltik]; apply: al; rewrite lei.
right; exists k; split=> //; first by rewrite le leqnn.
  by move=> i lei; rewrite (_ : i = k.+1) //; apply/eqP; rewrite eqn_leq andbC.
by case: (here_step lt win) => [hk|r|st]; [rewrite hk in nk | left | right].
Qed.

(** ** Events *)

(** The stay that begins with move [k] writes the word. *)
Definition written w k :=
  has (fun j => writes w (op_ j) && all (fun i => w \in here i) (iota k.+1 (j - k)))
      (iota k.+1 (n - k.+1)).

Lemma writtenP w k : reflect
  (exists j, [/\ k < j < n, writes w (op_ j) & forall i, k < i <= j -> w \in here i]) (written w k).
Proof.
apply: (iffP hasP) => [[j]|[j [/andP[ltj ltn] wr al]]].
  rewrite mem_iota => /andP[ltj]; have [le|/ltnW gt] := leqP k.+1 n; last first.
    by rewrite (eqP gt) addn0 ltnNge ltj.
  rewrite subnKC // => ltn /andP[wr /allP al]; exists j; split=> [||i /andP[lti lei]] //.
    by rewrite ltj.
  by apply: al; rewrite mem_iota lti addSn subnKC // ltnW.
exists j; first by rewrite mem_iota ltj subnKC //; apply: ltn_trans ltn.
rewrite wr; apply/allP => i; rewrite mem_iota addSn subnKC; last exact: ltnW.
by rewrite ltnS; apply: al.
Qed.

Definition event k :=
  match op_ k with
  | Read _ => true
  | Mul p _ _ => (sum t p \notin here k) && written (sum t p) k
  | _ => false
  end.

(** The word that an event brings into fast memory. *)
Definition brings k : option word :=
  match op_ k with Read v => Some (name v) | Mul p _ _ => Some (sum t p) | _ => None end.

Lemma event_read k w : reads w (op_ k) -> event k /\ brings k = Some w.
Proof. by rewrite /event /brings /reads; case: op_ => // v /eqP->. Qed.

Lemma event_start k w : starts w k -> written w k -> event k /\ brings k = Some w.
Proof. by case=> p /doesP[T [x o]] [<- nin] wr; rewrite /event /brings o nin wr. Qed.

(** The first write of the stay that begins with move [k]. *)
Definition write_of k :=
  k.+1 + find (fun j => if brings k is Some w then writes w (op_ j) else false)
              (iota k.+1 (n - k.+1)).

Lemma write_ofP k w : starts w k -> written w k ->
  [/\ k < write_of k, write_of k < n, writes w (op_ (write_of k)) &
      forall i, k < i <= write_of k -> w \in here i].
Proof.
move=> st wr; have [_ br] := event_start st wr.
case/writtenP: wr => j [/andP[ltj ltn] wj al]; rewrite /write_of br.
set l := iota _ _; set a := fun _ => _.
have jin : j \in l by rewrite mem_iota ltj subnKC //; apply: ltn_trans ltn.
have hs : has a l by apply/hasP; exists j.
have := hs; rewrite has_find size_iota => lf.
have ltfn : k.+1 + find a l < n by rewrite -ltn_subRL.
have lef : k.+1 + find a l <= j.
  rewrite leqNgt; apply/negP => gt.
  have ji : j - k.+1 < find a l by rewrite ltn_subLR.
  have := before_find 0 ji; rewrite nth_iota ?subnKC //; last exact: ltn_trans ji lf.
  by rewrite /a wj.
split=> //; first by rewrite addSn ltnS leq_addr.
  by have := nth_find 0 hs; rewrite nth_iota.
by move=> i /andP[lti lei]; apply: al; rewrite lti (leq_trans lei).
Qed.

Lemma iota_op (a : pred (move word product)) : count (fun k => a (op_ k)) (iota 0 n) = count a ops.
Proof. by rewrite -{2}(mkseq_nth o0 ops) count_map. Qed.

Lemma events_traffic : count event (iota 0 n) <= traffic ops.
Proof.
pose isr (o : move word product) := if o is Read _ then true else false.
pose isw (o : move word product) := if o is Write _ then true else false.
pose fresh k := event k && ~~ isr (op_ k).
have -> : traffic ops = count isr ops + count isw ops.
  rewrite /traffic -count_predUI [X in _ + X](_ : _ = 0) ?addn0; last first.
    by rewrite -(count_pred0 ops); apply: eq_count; case.
  by apply: eq_count; case.
have -> : count event (iota 0 n) = count (fun k => isr (op_ k)) (iota 0 n) + count fresh (iota 0 n).
  elim: (iota 0 n) => //= k l ->; rewrite /fresh /event addnACA; congr (_ + _).
  by case: op_ => [v|v|v|v x|p T x|w T U x] //=; rewrite andbT.
rewrite iota_op leq_add2l -[count isw _]iota_op -!size_filter -(size_map write_of).
have freshP k : fresh k -> exists2 w, starts w k & written w k.
  rewrite /fresh /event; case o: op_ => [v|v|v|v x|p T x|w T U x] //=.
  rewrite andbT => /andP[nin wr]; exists (sum t p) => //.
  by exists p => //; rewrite o /= eqxx.
apply: uniq_leq_size => [|j /mapP[k]]; last first.
  rewrite !mem_filter => /andP[/freshP[w st wr] _] ->; have [_ ltn wo _] := write_ofP st wr.
  by rewrite mem_iota ltn andbT; move: wo; rewrite /writes /isw; case: op_.
rewrite map_inj_in_uniq ?filter_uniq ?iota_uniq // => j k.
rewrite !mem_filter => /andP[/freshP[w sj wj] _] /andP[/freshP[v sk wk] _] e.
have [ltj _ oj alj] := write_ofP sj wj; have [ltk _ ok' alk] := write_ofP sk wk.
have ewv : w = v.
  by apply: (writes_inj oj); rewrite e.
subst v; case: (ltngtP j k) => // lt.
  by case: sk => p _ [_ /negP[]]; apply: alj; rewrite lt e (ltnW ltk).
by case: sj => p _ [_ /negP[]]; apply: alk; rewrite lt -e (ltnW ltj).
Qed.

(** ** Paid words *)

Definition paid s e w := (w \in here s) || has (fun j => event j && (brings j == Some w)) (iota s (e - s)).

Lemma paidP s e w : reflect
  (w \in here s \/ exists2 j, s <= j < e & event j /\ brings j = Some w) (paid s e w).
Proof.
apply: (iffP orP) => [] [|]; try by left.
  move=> /hasP[j]; rewrite mem_iota => /andP[le lt] /andP[ev /eqP br]; right; exists j => //.
  rewrite le; have [les|/ltnW ges] := leqP s e; first by rewrite subnKC in lt.
  by move: lt; rewrite (eqP ges) addn0 ltnNge le.
case=> j /andP[le lt] [ev br]; right; apply/hasP; exists j; last by rewrite ev br eqxx.
by rewrite mem_iota le subnKC // (leq_trans le) // ltnW.
Qed.

Lemma paid_size s e (X : seq word) : uniq X -> (forall w, w \in X -> paid s e w) ->
  size X <= size (near (at_ s)) + count event (iota s (e - s)).
Proof.
move=> uX sub; rewrite -size_filter -(size_map brings) -(size_map name) -(size_map Some (map _ _)).
rewrite -size_cat -(size_map Some X); apply: uniq_leq_size.
  by rewrite map_inj_uniq // => ? ? [].
move=> _ /mapP[w /sub/orP[win|/hasP[j jin /andP[ev /eqP br]]] ->]; rewrite mem_cat.
  by rewrite (map_f Some win).
by apply/orP; right; apply/mapP; exists j; rewrite // mem_filter ev.
Qed.

Lemma brought s k e w : s <= k <= n -> k <= e -> w \in here k ->
  (forall j, s <= j < k -> starts w j -> (forall i, j < i <= k -> w \in here i) -> written w j) ->
  paid s e w.
Proof.
move=> range lek win sp; apply/paidP.
case: (stay range win) => [al|[j [/andP[lej ltj] _ al how]]].
  by left; apply: al; rewrite leqnn; case/andP: range.
right; exists j; first by rewrite lej (leq_trans ltj).
by case: how => [/event_read//|st]; apply: event_start st (sp j _ st al); rewrite lej.
Qed.

(** A word that is not a sum. *)
Lemma operand_paid s k e w : s <= k <= n -> k <= e -> w \in here k ->
  (forall q, sum t q != w) -> paid s e w.
Proof.
move=> range lek win no; apply: (brought range lek win) => j _ [q _ [/eqP]].
by rewrite (negPf (no q)).
Qed.

(** ** Where the terms of a sum are *)

Definition term p (v : value) := if v is inr (_, T) then p \in T else false.
Definition held p k := has (term p) (near (at_ k)).
Definition kept p k := has (term p) (far (at_ k)).

Lemma term_name p k v : k <= n -> v \in near (at_ k) ++ far (at_ k) -> term p v -> name v = sum t p.
Proof.
move=> le /(sound_all le); case: v => //= -[w T] /= /allP al /al.
by case/and3P=> _ /eqP.
Qed.

Lemma held_here p k : k <= n -> held p k -> sum t p \in here k.
Proof.
move=> le /hasP[v vin tv]; rewrite -(term_name le _ tv) ?mem_cat ?vin //.
exact: map_f.
Qed.

Lemma held_past p k : k <= n -> held p k -> p \in past (at_ k).
Proof.
move=> le /hasP[v vin tv]; have := near_sound le vin.
by case: v tv {vin} => //= -[w T] /= pin /allP/(_ p pin)/and3P[].
Qed.

Lemma held0 p : ~~ held p 0.
Proof. by rewrite /held at0. Qed.

Lemma kept0 p : ~~ kept p 0.
Proof. by rewrite /kept at0; apply/hasPn => _ /mapP[w _ ->]. Qed.

Lemma whole_held p k : p \in products t -> sum t p \notin inputs t -> k <= n ->
  has (whole t (sum t p)) (near (at_ k)) -> held p k.
Proof.
move=> pin no le /hasP[v vin wv]; apply/hasP; exists v => //; move: wv (near_sound le vin).
case: v {vin} => [w|[w T]] /= => [/eqP ew win|/andP[_ /allP/(_ p pin)]]; last by rewrite eqxx.
by rewrite -ew win in no.
Qed.

(** A term in fast memory at [k] was there at [s], or is executed or read between. *)
Lemma term_entry p s k : s <= k <= n -> held p k ->
  held p s \/ exists2 j, s <= j < k &
    does p (op_ j) \/ exists2 v, op_ j = Read v & term p v.
Proof.
case/andP; elim: k => [|k IH]; first by rewrite leqn0 => /eqP->; left.
rewrite leq_eqVlt => /orP[/eqP-> | ]; first by left.
rewrite ltnS => le lt /hasP[v vin tv].
have more : held p k -> held p s \/ exists2 j, s <= j < k.+1 &
    does p (op_ j) \/ exists2 v, op_ j = Read v & term p v.
  case/(IH le (ltnW lt)) => [|[j /andP[lej ltj] how]]; first by left.
  by right; exists j => //; rewrite lej ltnW.
have now : does p (op_ k) \/ (exists2 v, op_ k = Read v & term p v) -> held p s \/ exists2 j, s <= j < k.+1 &
    does p (op_ j) \/ exists2 v, op_ j = Read v & term p v.
  by move=> how; right; exists k; rewrite ?le ?leqnn.
have old u : u \in near (at_ k) -> term p u -> held p k by move=> uin tu; apply/hasP; exists u.
have [nr _ _ _ _] := moveP lt; case: (nr v vin) => [vk|]; first exact/more/(old v).
case o: op_ => [u|u|u|u x|q T x|w T U x] //= [ev]; subst v.
- by apply: now; right; exists u.
- exact/more/(old u (op_copy lt o)).
- move: tv; rewrite /= inE => /orP[/eqP epq|pT]; first by apply: now; left; rewrite o /= epq eqxx.
  have [_ _ _ _ /orP[/eqP T0|Tin]] := op_mul lt o; first by rewrite T0 in pT.
  exact/more/(old _ Tin).
have [Tin Uin] := op_add lt o; move: tv; rewrite /= mem_cat => /orP[pT|pU].
  exact/more/(old _ Tin).
exact/more/(old _ Uin).
Qed.

Lemma read_kept p k v : k < n -> op_ k = Read v -> term p v -> kept p k.
Proof. by move=> lt o tv; apply/hasP; exists v => //; apply: op_read. Qed.

(** As long as no copy of it is in slow memory, a term that is executed only up to
    [j] is in fast memory from there on. *)
Lemma carried p j k : j <= k -> k <= n -> held p k -> (forall i, j <= i < k -> ~~ does p (op_ i)) ->
  (forall i, j <= i < k -> ~~ kept p i) -> held p j.
Proof.
move=> le len hk nodo nokept; have := @term_entry p j k; rewrite le len.
move=> /(_ isT hk)[//|[i /andP[lei lti] how]]; have range : j <= i < k by rewrite lei.
case: how => [d|[v o tv]]; first by case/negP: (nodo i range).
by case/negP: (nokept i range); apply: read_kept o tv; apply: leq_trans lti len.
Qed.

(** The first write of a term. *)
Lemma first_write p k : k <= n -> kept p k ->
  exists j, [/\ j < k, exists2 v, op_ j = Write v & term p v & forall i, i <= j -> ~~ kept p i].
Proof.
elim: k => [|k IH] le; first by rewrite (negPf (kept0 p)).
move=> kk; have [ek|nk] := boolP (kept p k).
  by have [j [ltj wj nj]] := IH (ltnW le) ek; exists j; split=> //; apply: ltnW.
exists k; split=> //.
  case/hasP: kk => v vin tv; have [_ _ fr _ _] := moveP le.
  case: (fr v vin) => [vk|]; last by exists v.
  by case/negP: nk; apply/hasP; exists v.
move=> i lei; apply/negP => ki; case/negP: nk; elim: k lei le {IH kk} => [|k IH].
  by rewrite leqn0 => /eqP<-.
rewrite leq_eqVlt => /orP[/eqP<- //|]; rewrite ltnS => lei le.
have /hasP[v vin tv] := IH lei (ltnW le); apply/hasP; exists v => //.
have := atS (ltnW le); rewrite /go; case: op_ => [u|u|u|u x|q T x|w T U x]; case: ifP => // _.
- by move/putP => [-> _ _ _ _].
- by case=> <-; rewrite inE vin orbT.
- by case=> <-.
- by move/putP => [-> _ _ _ _].
- by move/putP => [-> _ _ _ _].
by move/putP => [-> _ _ _ _].
Qed.

(** Move [j] executes [p], and this term is in fast memory until it is written. *)
Definition lasting p j :=
  does p (op_ j) &&
  has (fun e => writes (sum t p) (op_ e) && all (held p) (iota j.+1 (e - j))) (iota j.+1 (n - j.+1)).

Lemma last_before (a : pred nat) m : (exists2 j, j < m & a j) ->
  exists j, [/\ j < m, a j & forall i, j < i < m -> ~~ a i].
Proof.
elim: m => [[]//|m IH] [j]; have [am _ _|nam] := boolP (a m).
  by exists m; split=> // i /andP[lt]; rewrite ltnS leqNgt lt.
rewrite ltnS leq_eqVlt => /orP[/eqP->|lt aj]; first by rewrite (negPf nam).
have [|i [lti ai no]] := IH; first by exists j.
exists i; split=> //; first exact: ltnW.
move=> x /andP[ltx]; rewrite ltnS leq_eqVlt => /orP[/eqP->//|ltxm].
by apply: no; rewrite ltx.
Qed.

Lemma lasts p : kept p n -> exists2 j, j < n & lasting p j.
Proof.
move=> /(first_write (leqnn n))[e [lte [v oe tv] nokept]].
have he : held p e by apply/hasP; exists v => //; apply: op_write.
have := @term_entry p 0 e; rewrite (ltnW lte) => /(_ isT he)[|[i lti how]].
  by rewrite (negPf (held0 p)).
have [|j [ltj dj no]] := @last_before (fun j => does p (op_ j)) e.
  exists i => //; case: how => [//|[u o tu]].
  by case/negP: (nokept i (ltnW lti)); apply: read_kept o tu; apply: ltn_trans lte.
exists j; first exact: ltn_trans lte.
rewrite /lasting dj; apply/hasP; exists e.
  by rewrite mem_iota ltj subnKC // (ltn_trans ltj lte).
apply/andP; split.
  by rewrite oe /= (term_name (ltnW lte) _ tv) ?eqxx // mem_cat (op_write lte oe).
apply/allP => x; rewrite mem_iota addSn subnKC ?ltnS; last exact: ltnW.
move=> /andP[ltx lex]; apply: carried lex (ltnW lte) he _ _ => y /andP[ley lty].
  by apply: no; rewrite (leq_trans ltx).
exact: nokept (ltnW lty).
Qed.

Lemma lastingP p j : lasting p j -> does p (op_ j) /\
  exists e, [/\ j < e < n, writes (sum t p) (op_ e) & forall i, j < i <= e -> held p i].
Proof.
case/andP=> dj /hasP[e]; rewrite mem_iota => /andP[lt].
have [le|/ltnW gt] := leqP j.+1 n; last by rewrite (eqP gt) addn0 ltnNge lt.
rewrite subnKC // => ltn /andP[wr /allP al]; split=> //; exists e; split=> [||i /andP[lti lei]] //.
  by rewrite lt.
by apply: al; rewrite mem_iota lti addSn subnKC // ltnW.
Qed.

(** The sum of a product that lasts is paid where it is executed. *)
Lemma lasting_paid s j e p : lasting p j -> s <= j < e -> e <= n -> paid s e (sum t p).
Proof.
move=> /lastingP[/doesP[T [x o]] [z [/andP[ltz zn] wr al]]] /andP[le lt] len.
have ltn := leq_trans lt len.
have win : sum t p \in here j.+1.
  by have [_ + _ _ _] := moveP ltn; rewrite o => /(_ _ erefl); apply: (map_f name).
apply: (@brought s j.+1) => // [|i /andP[_ lti] st hi]; first by rewrite leqW.
apply/writtenP; exists z; split=> //; first by rewrite zn andbT; apply: leq_trans lti ltz.
move=> y /andP[lty ley]; have [lej|gtj] := leqP y j.+1; first by apply: hi; rewrite lty.
apply: held_here; first exact: leq_trans ley (ltnW zn).
by apply: al; rewrite ley andbT; apply: ltnW.
Qed.

(** ** The whole schedule, and its segments *)

Lemma paid_traffic (X : seq word) : uniq X -> (forall w, w \in X -> paid 0 n w) -> size X <= traffic ops.
Proof.
move=> uX sub; apply: leq_trans events_traffic.
by have := paid_size uX sub; rewrite at0 add0n subn0.
Qed.

Variable S : nat.
Hypothesis S_gt0 : 0 < S.
Definition parts := segments n M S event.
Local Notation border := (border n M S event).

Lemma paid_segment i (X : seq word) : uniq X ->
  (forall w, w \in X -> paid (border i) (border i.+1) w) -> size X <= M + S.
Proof.
move=> uX sub; have := paid_size uX sub.
have := segment_events n M event S_gt0 i.
have le := near_size (border_size n M S event i).
case: i {sub} le => [|i] le ev sz; apply: leq_trans sz _.
  by rewrite border0 at0 add0n; move: ev; rewrite mul1n border0.
by apply: leq_add => //; move: ev; rewrite mul0n add0n.
Qed.

Lemma parts_traffic : 1 < parts -> M + S * parts.-1 <= traffic ops.
Proof.
by move=> /(segments_events S_gt0) lt; apply: leq_trans events_traffic; apply: ltnW.
Qed.

End Stays.
