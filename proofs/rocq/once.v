(** * Attention, class [once]: 4 N^2 d^2 / M per head

    Sections 3, 4 and 6 of [proofs/constant_tight.md]: the accounting of the
    segments (Lemmas 1, 2, 4), which with the cap of a segment
    ([touched.v]: Lemmas 3 and 6) gives Theorem 2. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments machine touched.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** The smallest and the largest number of a list. *)
Definition lo (s : seq nat) := if s is x :: s' then foldr minn x s' else 0.
Definition hi (s : seq nat) := foldr maxn 0 s.

Lemma lo_le s x : x \in s -> lo s <= x.
Proof.
case: s => //= y s; elim: s => [|z s IH] /=; first by rewrite inE => /eqP->.
rewrite !inE geq_min => /or3P[xy|/eqP->|xs]; first by rewrite IH ?orbT // inE xy.
  by rewrite leqnn.
by rewrite IH ?orbT // inE xs orbT.
Qed.

Lemma lo_mem s : 0 < size s -> lo s \in s.
Proof.
case: s => //= y s _; elim: s => [|z s IH] /=; first by rewrite inE.
rewrite /minn; case: ifP => _; first by rewrite !inE eqxx orbT.
by move: IH; rewrite !inE => /orP[->|->]; rewrite ?orbT.
Qed.

Lemma hi_ge s x : x \in s -> x <= hi s.
Proof.
elim: s => //= y s IH; rewrite inE leq_max => /orP[/eqP->|/IH->]; by rewrite ?leqnn ?orbT.
Qed.

Lemma hi_mem s : 0 < size s -> hi s \in s.
Proof.
elim: s => //= y s IH _; rewrite /maxn; case: ifP => lt; last by rewrite mem_head.
by rewrite inE IH ?orbT //; case: s lt {IH}.
Qed.

Section Once.
Variables (pairs : seq (nat * nat)) (d dv M : nat).
Variable ops : seq (op aword_eqType aproduct_eqType).
Hypothesis pairs_uniq : uniq pairs.
Hypothesis d_gt0 : 0 < d.
Hypothesis M_gt0 : 0 < M.
Hypothesis ok : computes M (attention_widths pairs d dv) ops.

Local Notation t := (attention_widths pairs d dv).
Local Notation o0 := (@Drop aword_eqType aproduct_eqType (Q 0 0)).
Local Notation n := (size ops).
Local Notation pos := (pos ops).
Local Notation seg := (seg M t ops o0 M).
Local Notation parts := (parts M t ops o0 M).
Local Notation border := (border n M M (event M t ops o0)).
Local Notation paid := (paid M t ops o0).
Local Notation spilled := (spilled ops).
Local Notation inE_ := (inE_ dv).
Local Notation inF_ := (inF_ d).
Local Notation score_input := (score_input pairs d dv).
Local Notation rows := (rows pairs).
Local Notation cols := (cols pairs).
Local Notation words := (words pairs d dv).

Lemma out_spill ij l : ij \in pairs -> l < dv -> spilled (O ij.1 l).
Proof.
move=> pin lt; apply: (out_spilled o0 ok).
  by apply/allpairsP; exists (ij, l); rewrite mem_iota add0n.
by rewrite !mem_cat; apply/negP => /or3P[] /allpairsP[? [_ _]].
Qed.

(** All these words are paid, if the products lie in [[x, y)]. *)
Lemma words_paid x y (e f : nat -> pred (nat * nat)) (s : seq (nat * nat)) w : y <= n ->
  (forall c ij, ij \in pairs -> c < d -> e c ij -> x <= pos (prodE c ij) < y) ->
  (forall l ij, ij \in pairs -> l < dv -> f l ij -> x <= pos (prodF l ij) < y) ->
  (forall ij, ij \in s -> paid x y (score ij)) ->
  w \in words e f s -> paid x y w.
Proof.
move=> len inx iny ins; rewrite /words !mem_cat => /or4P[||| /orP[|]].
- case/allpairsPdep => c [r [+ /rowsP[ij [pin eij] ->] ->]]; rewrite mem_iota => ltc.
  apply: (@operand_paid _ _ _ _ _ o0 ok _ _ (prodE c ij)) => //.
  + exact: inE_.
  + exact: inx.
  + by rewrite inE eqxx.
  by case.
- case/allpairsPdep => c [r [+ /colsP[ij [pin eij] ->] ->]]; rewrite mem_iota => ltc.
  apply: (@operand_paid _ _ _ _ _ o0 ok _ _ (prodE c ij)) => //.
  + exact: inE_.
  + exact: inx.
  + by rewrite !inE eqxx orbT.
  by case.
- case/allpairsPdep => c [r [+ /colsP[ij [pin eij] ->] ->]]; rewrite mem_iota => ltc.
  apply: (@operand_paid _ _ _ _ _ o0 ok _ _ (prodF c ij)) => //.
  + exact: inF_.
  + exact: iny.
  + by rewrite !inE eqxx orbT.
  by case.
- case/allpairsPdep => c [r [+ /rowsP[ij [pin eij] ->] ->]]; rewrite mem_iota => ltc.
  apply: (@sum_paid _ _ _ _ _ o0 ok _ _ (prodF c ij)) => //.
  + exact: inF_.
  + exact: iny.
  exact: out_spill.
by case/mapP => ij /ins + ->.
Qed.

(** ** Visits of a pair to segments *)

Definition segE c ij := seg (prodE c ij).
Definition segF l ij := seg (prodF l ij).
Definition segsE ij := [seq segE c ij | c <- iota 0 d].
Local Notation segs := (segs d dv segE segF).
Local Notation segE_in := (segE_in dv segE segF).
Local Notation segF_in := (segF_in d segE segF).
Definition first ij := lo (segsE ij).
Definition final ij := hi (segs ij).

Lemma segs_lt ij i : ij \in pairs -> i \in segs ij -> i < parts.
Proof.
move=> pin; rewrite mem_cat => /orP[] /mapP[c]; rewrite mem_iota => ltc ->.
  by apply: (seg_lt o0 ok); apply: inE_.
by apply: (seg_lt o0 ok); apply: inF_.
Qed.

Lemma firstP ij : exists2 c, c < d & first ij = segE c ij.
Proof.
have : first ij \in segsE ij by apply: lo_mem; rewrite size_map size_iota.
by case/mapP => c; rewrite mem_iota => ltc ->; exists c.
Qed.

Lemma first_le ij i : ij \in pairs -> i \in segs ij -> first ij <= i.
Proof.
move=> pin; have leE c : c < d -> first ij <= segE c ij.
  by move=> ltc; apply/lo_le/map_f; rewrite mem_iota.
rewrite mem_cat => /orP[] /mapP[c]; rewrite mem_iota => ltc ->; first exact: leE.
apply: leq_trans (leE 0 d_gt0) _; apply: leq_segment.
have [ltF opF] := op_pos o0 ok (inF_ pin ltc).
have := op_do_finished ok ltF opF (q := prodE 0 ij) erefl (inE_ pin d_gt0).
case/(doneP o0 ok _ (ltnW ltF)) => j ltj oj.
by rewrite (pos_op ok (ltn_trans ltj ltF) oj) ltnW.
Qed.

Lemma final_in ij : final ij \in segs ij.
Proof. by apply: hi_mem; rewrite size_cat !size_map !size_iota addn_gt0 d_gt0. Qed.

Lemma first_final ij : ij \in pairs -> first ij <= final ij.
Proof. by move=> pin; apply/first_le/final_in. Qed.

(** A product of the pair in segment [i], which has the score in fast memory. *)
Lemma visitP ij i : ij \in pairs -> i \in segs ij ->
  exists2 p, p \in products t /\ seg p = i & score ij \in [:: left t p; right t p; sum t p].
Proof.
move=> pin; rewrite mem_cat => /orP[] /mapP[c]; rewrite mem_iota => ltc ->.
  by exists (prodE c ij); [split; rewrite ?inE_ | rewrite !inE eqxx !orbT].
by exists (prodF c ij); [split; rewrite ?inF_ | rewrite !inE eqxx].
Qed.

(** Inner pairs, free starts, and paid visits of crossing pairs. *)
Definition crossing ij := first ij != final ij.
Definition inner i ij := (first ij == i) && ~~ crossing ij.
Definition fresh i ij := (first ij == i) && (crossing ij && ~~ spilled (score ij)).
Definition visit i ij := (i \in segs ij) && (crossing ij && ((first ij != i) || spilled (score ij))).

Lemma visits i ij : ij \in pairs -> i \in segs ij -> [|| inner i ij, visit i ij | fresh i ij].
Proof.
move=> pin iin; rewrite /inner /visit /fresh iin /crossing /=.
have := first_le pin iin; have := hi_ge iin; rewrite -/(final ij).
case: (first ij =P final ij) => [->|_] /= le1 le2; last first.
  by case: (first ij == i); case: (spilled _).
by rewrite andbT eqn_leq le1 le2.
Qed.

(** Lemma 4: at most one inner or free visit per pair, and another visit after it. *)
Lemma free_once : \sum_(i < parts) (count (fresh i) pairs + count (inner i) pairs) <= size pairs.
Proof.
have lt : {in pairs, forall ij, first ij < parts}.
  by move=> ij pin; have [c ltc ->] := firstP ij; apply: segs_lt (segE_in _ ltc).
rewrite -[size pairs]count_predT -(sum_parts predT lt).
apply: leq_sum => i _; rewrite !count_sum -big_split /=.
apply: leq_sum => ij _; rewrite /fresh /inner.
by case: (_ == _); case: crossing; case: (spilled _).
Qed.

Lemma free_paid : \sum_(i < parts) count (fresh i) pairs <= \sum_(i < parts) count (visit i) pairs.
Proof.
pose b ij := crossing ij && ~~ spilled (score ij).
have ltf : {in pairs, forall ij, first ij < parts}.
  by move=> ij pin; have [c ltc ->] := firstP ij; apply: segs_lt (segE_in _ ltc).
have ltl : {in pairs, forall ij, final ij < parts}.
  by move=> ij pin; apply: segs_lt (final_in ij).
have -> : \sum_(i < parts) count (fresh i) pairs = count b pairs by rewrite -(sum_parts b ltf).
rewrite -(sum_parts b ltl); apply: leq_sum => i _; apply: sub_count => ij.
by rewrite /b /visit => /andP[/eqP <- /andP[cr sp]]; rewrite final_in cr /= -/(crossing ij) cr.
Qed.

(** ** One segment *)

Lemma pos_seg p i : p \in products t -> seg p = i -> border i <= pos p < border i.+1.
Proof. by move=> pin <-; rewrite -(in_seg o0 ok). Qed.

Lemma score_paid i ij : ij \in pairs -> visit i ij -> paid (border i) (border i.+1) (score ij).
Proof.
move=> pin /andP[iin /andP[_ lost]]; have [c ltc fc] := firstP ij.
have qin := inE_ pin ltc.
have [fi|nfi] := eqVneq (first ij) i.
  apply: (sum_paid o0 ok qin) (border_size _ _ _ _ _) _; first by apply: pos_seg => //; rewrite -fi fc.
  by move: lost; rewrite fi eqxx.
have [p [pprod pi] touch] := visitP pin iin.
apply: (@resumed_paid _ _ _ _ _ o0 ok _ _ _ _ _ pprod (pos_seg pprod pi) _ touch qin erefl).
  exact: border_size.
have [ltq _] := op_pos o0 ok qin; rewrite ltnNge leq_border // -ltnNge.
by rewrite -[segment _ _ _ _]/(segE c ij) -fc ltn_neqAle nfi first_le.
Qed.

Lemma fresh_fast i ij : ij \in pairs -> fresh i ij -> score ij \in fast (at_ M t ops (border i.+1)).
Proof.
move=> pin /andP[/eqP fi /andP[cr nsp]]; have [c ltc fc] := firstP ij.
have qin := inE_ pin ltc; have [ltq opq] := op_pos o0 ok qin.
have gt : i < final ij by rewrite -fi ltn_neqAle [_ != _]cr first_final.
have [p [pprod pf] touch] := visitP pin (final_in ij).
have [ltp opp] := op_pos o0 ok pprod.
have leb : border i.+1 <= pos p by rewrite leq_border // -[segment _ _ _ _]/(seg p) pf.
have [k [lek len win]] : exists k, [/\ border i.+1 <= k, k <= n & score ij \in fast (at_ M t ops k)].
  have [_ _ lin rin sin] := op_do ok ltp opp.
  move: touch; rewrite !inE => /or3P[]/eqP->.
  - by exists (pos p); rewrite leb ltnW.
  - by exists (pos p); rewrite leb ltnW.
  by exists (pos p).+1; rewrite leqW.
have range : border i.+1 <= k <= n by rewrite lek.
case: (entry o0 ok range win) => // -[j /andP[lej ltj] [ld|st]]; have ltjn := leq_trans ltj len.
  have := load_stored o0 ok (ltnW ltjn) (op_load ok ltjn ld).
  rewrite (negPf (score_input ij)) => -[] // [x ltx ox]; case/negP: nsp.
  exact: (op_spilled (ltn_trans ltx ltjn) ox).
have := start_first ok ltjn st ltq opq erefl; rewrite leqNgt; case/negP.
apply: leq_trans lej; rewrite ltnNge leq_border // -ltnNge ltnS.
by rewrite -[segment _ _ _ _]/(segE c ij) -fc fi.
Qed.

Lemma fresh_size i : count (fresh i) pairs <= M.
Proof.
have [_ le] := fast_ok o0 ok (border_size n M M (event M t ops o0) i.+1).
apply: leq_trans le; rewrite -size_filter -(size_map score); apply: uniq_leq_size.
  by rewrite map_inj_uniq ?filter_uniq // => -[? ?] [? ?] [/= -> ->].
by move=> _ /mapP[ij + ->]; rewrite mem_filter => /andP[fr pin]; apply: fresh_fast.
Qed.

Local Notation e i := (fun c ij => segE c ij == i).
Local Notation f i := (fun l ij => segF l ij == i).

Lemma segment_words i :
  \sum_(c < d) size (rows (e i c)) + \sum_(c < d) size (cols (e i c))
    + \sum_(l < dv) size (cols (f i l)) + \sum_(l < dv) size (rows (f i l))
    + count (visit i) pairs <= 2 * M.
Proof.
have := words_size pairs d dv (e i) (f i) [seq ij <- pairs | visit i ij].
rewrite size_filter mul2n -addnn => <-.
apply: (paid_segment ok M_gt0 (i := i)); first by apply/words_uniq/filter_uniq.
move=> w; apply: words_paid; first exact: border_size.
- by move=> c ij pin ltc /eqP eqi; apply: pos_seg => //; apply: inE_.
- by move=> c ij pin ltc /eqP eqi; apply: pos_seg => //; apply: inF_.
by move=> ij; rewrite mem_filter => /andP[vis pin]; apply: score_paid.
Qed.

Lemma inner_all i ij x : ij \in pairs -> inner i ij -> x \in segs ij -> x == i.
Proof.
move=> pin /andP[/eqP fi]; rewrite negbK => /eqP ff xin.
by rewrite eqn_leq -{2}fi first_le // -fi ff hi_ge.
Qed.

(** ** The whole schedule *)

(** Every word of Q, K and V is loaded, and every word of O is stored. *)
Lemma compulsory : (d + dv) * (size (rows predT) + size (cols predT)) <= cost ops.
Proof.
have un : uniq (words (fun=> predT) (fun=> predT) [::]) by apply: words_uniq.
have := @paid_cost _ _ _ _ _ o0 ok _ un; rewrite words_size !sum_nat_const !card_ord addn0 => le.
apply: leq_trans (le _) => [|w].
  by move: (size (rows _)) (size (cols _)) => R K; apply: eq_leq; ring.
apply: words_paid => //.
- by move=> c ij pin ltc _; rewrite /=; case: (op_pos o0 ok (inE_ pin ltc)).
by move=> c ij pin ltc _; rewrite /=; case: (op_pos o0 ok (inF_ pin ltc)).
Qed.

Theorem once_bound : 5 * (d + dv) ^ 2 <= 8 * M -> size pairs * (d + dv) ^ 2 <= cost ops * M.
Proof.
move=> large; apply: bound_of_parts compulsory (parts_cost ok M_gt0) _.
  by have := box pairs_uniq predT; rewrite count_predT.
exact: (parts_needed pairs_uniq d_gt0 segs_lt inner_all visits fresh_size segment_words
  free_once free_paid).
Qed.

End Once.
