(** * Schedules, position by position

    What holds in every allowed schedule of the machine of [model.v]: how words
    get into fast memory, and that events (loads, and starts of accumulators
    that are stored at some time) are no more than transfers. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Schedule.
Variables word product : eqType.
Variables (M : nat) (t : task word product) (ops : seq (op word product)).
Variable o0 : op word product.
Hypothesis ok : computes M t ops.

Local Notation n := (size ops).

(** The state before operation [k], and operation [k]. *)
Definition at_ k : state word product := odflt (start t) (run M t (start t) (take k ops)).
Definition op_ k := nth o0 ops k.

Lemma run_cat s a b :
  run M t s (a ++ b) = obind (fun s' => run M t s' b) (run M t s a).
Proof. by elim: a s => //= o a IH s; case: step => //=. Qed.

Lemma at0 : at_ 0 = start t.
Proof. by rewrite /at_ take0. Qed.

Lemma run_end : run M t (start t) ops = Some (at_ n).
Proof. by move: ok; rewrite /computes /at_ take_size; case: run. Qed.

Lemma atS k : k < n -> step M t (at_ k) (op_ k) = Some (at_ k.+1).
Proof.
move=> lt_kn; rewrite /at_ (take_nth o0) // -/(op_ k) -cats1 run_cat.
have := run_end; rewrite -{1}(cat_take_drop k ops) run_cat (drop_nth o0 lt_kn) -/(op_ k).
by case: (run M t (start t) (take k ops)) => //= s; case: (step M t s (op_ k)).
Qed.

Lemma all_done p : p \in products t -> p \in done (at_ n).
Proof. by move: ok; rewrite /computes run_end => /andP[/allP + _]; apply. Qed.

Lemma all_out w : w \in outputs t -> w \in slow (at_ n).
Proof. by move: ok; rewrite /computes run_end => /andP[_ /allP]; apply. Qed.

(** ** One operation *)

(** The product that an operation executes. *)
Definition made (o : op word product) : option product :=
  match o with Do p | Over p _ => Some p | _ => None end.

Lemma rem_fast (x w : word) l : uniq l -> x \in l -> w \notin l ->
  uniq (w :: rem x l) /\ size (w :: rem x l) = size l.
Proof.
move=> un xin nin; rewrite /= rem_uniq // size_rem // prednK ?andbT; last by case: l xin {un nin}.
by split=> //; apply: contra nin; apply: mem_rem.
Qed.

Lemma fast_ok k : k <= n -> uniq (fast (at_ k)) /\ size (fast (at_ k)) <= M.
Proof.
elim: k => [|k IH] lekn; first by rewrite at0.
have [un le] := IH (ltnW lekn); have := atS lekn; rewrite /step.
case: op_ => [w|w|w|p|p x].
- by case: and3P => // -[_ nin lt] [<-] /=; rewrite nin.
- by case: ifP => // _ [<-].
- case: ifP => // win [<-] /=; split; first exact: rem_uniq.
  by rewrite size_rem // (leq_trans _ le) // leq_pred.
- case: ifP => // /andP[_ room] [<-] /=.
  by case: ifP room => // nin /=; rewrite nin; case/andP=> _ ->.
case: and4P => // -[/and5P[_ _ lin _ /andP[rin _]] xin nin _] [<-].
have xf : x \in fast (at_ k) by move: xin; rewrite !inE => /orP[]/eqP->.
by have [un' sz] := rem_fast un xf nin; split=> //; rewrite sz.
Qed.

Lemma fast_step k w : k < n -> w \in fast (at_ k.+1) ->
  [\/ w \in fast (at_ k), op_ k = Load w |
      exists2 p, made (op_ k) = Some p & sum t p = w /\ w \notin fast (at_ k)].
Proof.
move=> lt; have := atS lt; rewrite /step.
case o: op_ => [v|v|v|p|p x].
- case: ifP => // _ [<-] /=; rewrite inE => /orP[/eqP-> | ->]; first by constructor 2.
  by constructor 1.
- by case: ifP => // _ [<-] /=; constructor 1.
- by case: ifP => // _ [<-] /= /mem_rem; constructor 1.
- case: ifP => // _ [<-] /=; case: ifP => [_|/negbT nin]; first by constructor 1.
  rewrite inE => /orP[/eqP-> | ->]; last by constructor 1.
  by constructor 3; exists p.
case: and4P => // -[_ _ nin _] [<-] /=; rewrite inE => /orP[/eqP-> | /mem_rem]; last by constructor 1.
by constructor 3; exists p.
Qed.

Lemma op_ready k p : k < n -> made (op_ k) = Some p ->
  [/\ ready t (at_ k) p, sum t p \in fast (at_ k.+1)
    & at_ k.+1 = after t (at_ k) p (fast (at_ k.+1))].
Proof.
move=> lt; have := atS lt; rewrite /step; case: op_ => [w|w|w|q|q x] //=; case: ifP => // /andP[rd _].
  by move=> [<-] [<-]; split=> //=; case: ifP => // _; rewrite mem_head.
by move=> [<-] [<-]; split=> //; exact: mem_head.
Qed.

Lemma op_do k p : k < n -> made (op_ k) = Some p ->
  [/\ p \in products t, p \notin done (at_ k), left t p \in fast (at_ k),
      right t p \in fast (at_ k) & sum t p \in fast (at_ k.+1)].
Proof. by move=> lt /(op_ready lt)[/and5P[-> -> -> _ /andP[-> _]] ->]. Qed.

Lemma op_do_finished k p q : k < n -> made (op_ k) = Some p ->
  sum t q = left t p -> q \in products t -> q \in done (at_ k).
Proof.
move=> lt /(op_ready lt)[/and5P[_ _ _ /allP fin _] _ _] eqw qin.
by have := fin _ qin; rewrite eqw eqxx.
Qed.

Lemma op_start k p : k < n -> made (op_ k) = Some p -> sum t p \notin fast (at_ k) ->
  ~~ started t (at_ k) (sum t p).
Proof.
move=> lt; have := atS lt; rewrite /step; case: op_ => [w|w|w|q|q x] //= + [<-] nin.
  by rewrite (negPf nin); case: ifP => // /and3P[].
by case: ifP => // /and4P[].
Qed.

Lemma op_load k w : k < n -> op_ k = Load w -> w \in slow (at_ k).
Proof. by move=> lt o; have := atS lt; rewrite o /step; case: and3P => [[]|]. Qed.

Lemma done_step k : k < n ->
  done (at_ k.+1) = if made (op_ k) is Some p then p :: done (at_ k) else done (at_ k).
Proof.
by move=> lt; have := atS lt; rewrite /step; case: op_ => [w|w|w|p|p x]; case: ifP => // _ [<-].
Qed.

Lemma slow_step k w : k < n -> w \in slow (at_ k.+1) ->
  w \in slow (at_ k) \/ op_ k = Store w.
Proof.
move=> lt; have := atS lt; rewrite /step.
case: op_ => [v|v|v|p|p x]; case: ifP => // _ [<-] /=; try by left.
- by rewrite inE => /orP[/eqP-> | ->]; [right | left].
- by rewrite mem_filter => /andP[_ ->]; left.
by rewrite mem_filter => /andP[_ ->]; left.
Qed.

(** ** Products *)

Lemma doneP p k : k <= n ->
  reflect (exists2 j, j < k & made (op_ j) = Some p) (p \in done (at_ k)).
Proof.
move=> le; apply: (iffP idP).
- elim: k le => [|k IH] lt; first by rewrite at0.
  rewrite done_step //; have {}IH := IH (ltnW lt).
  case o: made => [q|]; last by move=> /IH[j ltj]; exists j => //; apply: ltnW.
  rewrite inE => /orP[/eqP-> | /IH[j ltj]]; first by exists k.
  by exists j => //; apply: ltnW.
case=> j ltjk oj; elim: k le ltjk => // k IH lt.
rewrite ltnS leq_eqVlt done_step // => /orP[/eqP<- | ltjk].
  by rewrite oj inE eqxx.
by case: made => [q|]; rewrite ?inE IH ?orbT // ltnW.
Qed.

(** The position of a product. *)
Definition pos p := find (fun o => made o == Some p) ops.

Lemma op_pos p : p \in products t -> pos p < n /\ made (op_ (pos p)) = Some p.
Proof.
move=> /all_done/(doneP _ (leqnn _))[j ltj oj].
have hasp : has (fun o => made o == Some p) ops by apply/(has_nthP o0); exists j => //; apply/eqP.
by split; [rewrite -has_find | apply/eqP/(nth_find o0 hasp)].
Qed.

Lemma pos_op p k : k < n -> made (op_ k) = Some p -> pos p = k.
Proof.
move=> lt o; have [pin nd _ _ _] := op_do lt o.
have [ltp op] := op_pos pin.
have : pos p <= k.
  by rewrite leqNgt; apply/negP => /(before_find o0)/eqP; apply.
rewrite leq_eqVlt => /orP[/eqP// | ltpk].
by case/negP: nd; apply/(doneP _ (ltnW lt)); exists (pos p).
Qed.

(** ** How words get into fast memory *)

Definition starts w k := exists2 p, made (op_ k) = Some p & sum t p = w /\ w \notin fast (at_ k).

Lemma entry s k w : s <= k <= n -> w \in fast (at_ k) ->
  w \in fast (at_ s) \/ exists2 j, s <= j < k & op_ j = Load w \/ starts w j.
Proof.
case/andP; elim: k => [|k IH]; first by rewrite leqn0 => /eqP->; left.
rewrite leq_eqVlt => /orP[/eqP-> | ]; first by left.
rewrite ltnS => le lt win; case: (fast_step lt win) => [/(IH le (ltnW lt))[|[j]]|o|st].
- by left.
- by case/andP=> lej ltj H; right; exists j => //; rewrite lej ltnS (ltnW ltj).
- by right; exists k; [rewrite le leqnn | left].
by right; exists k; [rewrite le leqnn | right].
Qed.

Lemma start_first w j k p : j < n -> starts w j -> k < n -> made (op_ k) = Some p -> sum t p = w -> j <= k.
Proof.
move=> ltj [q oq [qw nin]] ltk op pw; rewrite leqNgt; apply/negP => ltkj.
have := op_start ltj oq; rewrite qw => /(_ nin)/hasP; apply.
by exists p; [apply/(doneP _ (ltnW ltj)); exists k | apply/eqP].
Qed.

Lemma load_stored k w : k <= n -> w \in slow (at_ k) ->
  w \in inputs t \/ exists2 j, j < k & op_ j = Store w.
Proof.
elim: k => [|k IH] lt; first by rewrite at0; left.
case/(slow_step lt) => [/(IH (ltnW lt))[|[j ltj oj]]|]; first by left.
  by right; exists j => //; apply: ltnW.
by right; exists k.
Qed.

(** ** Events *)

Definition is_store w (o : op word product) := if o is Store v then v == w else false.
Definition spilled w := has (is_store w) ops.

Lemma op_spilled k w : k < n -> op_ k = Store w -> spilled w.
Proof.
by move=> lt o; apply/(has_nthP o0); exists k => //; rewrite -/(op_ k) o /= eqxx.
Qed.

Lemma out_spilled w : w \in outputs t -> w \notin inputs t -> spilled w.
Proof.
move=> /all_out/(load_stored (leqnn _))[-> //|[j lt o]] _.
exact: op_spilled lt o.
Qed.

Definition event k :=
  match op_ k with
  | Load _ => true
  | Do p | Over p _ => (sum t p \notin fast (at_ k)) && spilled (sum t p)
  | _ => false
  end.

(** The word that an event brings into fast memory. *)
Definition brings k : option word :=
  match op_ k with Load w => Some w | Do p | Over p _ => Some (sum t p) | _ => None end.

Lemma event_load k w : op_ k = Load w -> event k /\ brings k = Some w.
Proof. by rewrite /event /brings => ->. Qed.

Lemma event_start k w : starts w k -> spilled w -> event k /\ brings k = Some w.
Proof.
case=> p + [<- nin] sp; rewrite /event /brings.
by case: op_ => //= [q [->]|q x [->]]; rewrite nin sp.
Qed.

Lemma iota_op (a : pred (op word product)) : count (fun k => a (op_ k)) (iota 0 n) = count a ops.
Proof. by rewrite -{2}(mkseq_nth o0 ops) count_map. Qed.

Lemma events_cost : count event (iota 0 n) <= cost ops.
Proof.
pose isl (o : op word product) := if o is Load _ then true else false.
pose iss (o : op word product) := if o is Store _ then true else false.
pose fresh k := event k && ~~ isl (op_ k).
have -> : cost ops = count isl ops + count iss ops.
  rewrite /cost -count_predUI [X in _ + X](_ : _ = 0) ?addn0; last first.
    by rewrite -(count_pred0 ops); apply: eq_count; case.
  by apply: eq_count; case.
have -> : count event (iota 0 n) = count (fun k => isl (op_ k)) (iota 0 n) + count fresh (iota 0 n).
  elim: (iota 0 n) => //= k l ->; rewrite /fresh /event addnACA; congr (_ + _).
  by case: op_ => [w|w|w|p|p x] //=; rewrite andbT.
rewrite iota_op leq_add2l.
have freshP k : fresh k -> exists2 p, made (op_ k) = Some p &
    [/\ sum t p \notin fast (at_ k), spilled (sum t p) & brings k = Some (sum t p)].
  rewrite /fresh /event /brings; case: op_ => [w|w|w|p|p x] //=; rewrite andbT => /andP[nin sp].
    by exists p.
  by exists p.
pose stored (o : op word product) := if o is Store w then Some w else None.
have -> : count iss ops = size (pmap stored ops).
  by rewrite size_pmap; apply: eq_count; case.
rewrite -size_filter -[X in X <= _](size_map brings) -(size_map Some (pmap _ _)).
apply: uniq_leq_size.
  rewrite map_inj_in_uniq ?filter_uniq ?iota_uniq // => j k.
  rewrite !mem_filter !mem_iota !add0n /=.
  case/andP => fj ltj /andP[fk ltk]; have [p oj [nj _ ->]] := freshP j fj.
  have [q ok' [nk _ ->]] := freshP k fk => -[E].
  have sj : starts (sum t p) j by exists p.
  have sk : starts (sum t p) k by exists q => //; rewrite E.
  by apply/eqP; rewrite eqn_leq (start_first ltj sj ltk ok') // (start_first ltk sk ltj oj).
move=> x /mapP[k]; rewrite mem_filter => /andP[/freshP[p _ [_ sp ->]] _] ->.
apply: map_f; move: sp; rewrite /spilled; elim: ops => //= -[v|v|v|q|q v] l IH //=.
by case/orP => [/eqP->|/IH]; rewrite inE ?eqxx // => ->; rewrite orbT.
Qed.

(** ** Paid words

    A word is paid in [[s, e)] if it is in fast memory at position [s], or an
    event in [[s, e)] brings it there.  Distinct paid words are no more than the
    words of fast memory at [s] and the events. *)

Definition paid s e w :=
  w \in fast (at_ s) \/ exists2 j, s <= j < e & event j /\ brings j = Some w.

Lemma paid_size s e (X : seq word) : uniq X -> (forall w, w \in X -> paid s e w) ->
  size X <= size (fast (at_ s)) + count event (iota s (e - s)).
Proof.
move=> uX sub; rewrite -size_filter -(size_map brings) -(size_map Some (fast _)) -size_cat.
rewrite -(size_map Some X); apply: uniq_leq_size; first by rewrite map_inj_uniq // => ? ? [].
move=> _ /mapP[w /sub[win|[j /andP[le lt] [ev br]]] ->]; rewrite mem_cat.
  by rewrite map_f.
apply/orP; right; apply/mapP; exists j => //.
by rewrite mem_filter ev mem_iota le subnKC // (leq_trans le (ltnW lt)).
Qed.

Lemma brought s k e w : s <= k <= n -> k <= e -> w \in fast (at_ k) ->
  (forall j, s <= j < k -> starts w j -> spilled w) -> paid s e w.
Proof.
move=> le lek win sp; case: (entry le win) => [|[j ltj lost]]; first by left.
right; exists j; first by case/andP: ltj => -> ltj; apply: leq_trans lek.
by case: lost => [/event_load|st] //; apply: event_start st (sp j ltj st).
Qed.

(** A word that is not an accumulator, an accumulator that is stored at some time,
    and one that was started before [s]. *)
Lemma operand_paid s e p w : p \in products t -> s <= pos p < e -> e <= n ->
  w \in [:: left t p; right t p] -> (forall q, sum t q != w) -> paid s e w.
Proof.
move=> /op_pos[ltp op] /andP[le lt] len win nosum.
apply: (@brought s (pos p)); [by rewrite le ltnW | exact: ltnW | |].
  by have [_ _ lin rin _] := op_do ltp op; move: win; rewrite !inE => /orP[]/eqP->.
by move=> j _ [q _ [/eqP]]; rewrite (negPf (nosum q)).
Qed.

Lemma sum_paid s e p : p \in products t -> s <= pos p < e -> e <= n ->
  spilled (sum t p) -> paid s e (sum t p).
Proof.
move=> /op_pos[ltp op] /andP[le lt] len sp.
apply: (@brought s (pos p).+1) => //; first by rewrite ltp leqW.
by have [] := op_do ltp op.
Qed.

Lemma resumed_paid s e p q w : p \in products t -> s <= pos p < e -> e <= n ->
  w \in [:: left t p; right t p; sum t p] ->
  q \in products t -> sum t q = w -> pos q < s -> paid s e w.
Proof.
move=> /op_pos[ltp op] /andP[le lt] len win /op_pos[ltq oq] qw lts.
have [_ _ lin rin sin] := op_do ltp op.
have no j : s <= j -> j < n -> starts w j -> False.
  move=> lej ltj st; have := start_first ltj st ltq oq qw.
  by rewrite leqNgt (leq_trans lts lej).
move: win; rewrite !inE => /or3P[]/eqP ew; subst w.
- apply: (@brought s (pos p)); [by rewrite le ltnW | exact: ltnW | by rewrite ew |].
  by move=> j /andP[sj jp] st; case: (no j sj (ltn_trans jp ltp) st).
- apply: (@brought s (pos p)); [by rewrite le ltnW | exact: ltnW | by rewrite ew |].
  by move=> j /andP[sj jp] st; case: (no j sj (ltn_trans jp ltp) st).
apply: (@brought s (pos p).+1); [by rewrite ltp leqW | exact: lt | by rewrite ew |].
by move=> j /andP[sj jp] st; case: (no j sj (leq_trans jp ltp) st).
Qed.

(** In the whole schedule, and in one of the segments it is cut into. *)
Lemma paid_cost (X : seq word) : uniq X -> (forall w, w \in X -> paid 0 n w) -> size X <= cost ops.
Proof.
move=> uX sub; apply: leq_trans events_cost.
by have := paid_size uX sub; rewrite at0 add0n subn0.
Qed.

Variable S : nat.
Hypothesis S_gt0 : 0 < S.
Definition seg p := segment M S event (pos p).
Definition parts := segments n M S event.
Local Notation border := (border n M S event).

Lemma seg_lt p : p \in products t -> seg p < parts.
Proof. by move=> /op_pos[lt _]; apply: segment_lt. Qed.

Lemma in_seg p i : p \in products t -> (seg p == i) = (border i <= pos p < border i.+1).
Proof. by move=> /op_pos[lt _]; apply: in_segment. Qed.

Lemma paid_segment i (X : seq word) : uniq X ->
  (forall w, w \in X -> paid (border i) (border i.+1) w) -> size X <= M + S.
Proof.
move=> uX sub; have := paid_size uX sub.
have := segment_events n M event S_gt0 i.
have [_ le] := fast_ok (border_size n M S event i).
case: i {sub} le => [|i] le ev sz; apply: leq_trans sz _.
  by rewrite border0 at0 add0n; move: ev; rewrite mul1n border0.
by apply: leq_add => //; move: ev; rewrite mul0n add0n.
Qed.

Lemma parts_cost : 1 < parts -> M + S * parts.-1 <= cost ops.
Proof.
by move=> /(segments_events S_gt0) lt; apply: leq_trans events_cost; apply: ltnW.
Qed.

End Schedule.
