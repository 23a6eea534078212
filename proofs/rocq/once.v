(** * Attention, class [once]: 4 N^2 d^2 / M per head

    Sections 3, 4 and 6 of [proofs/constant_tight.md]: the accounting of the
    segments (Lemmas 1, 2, 4), which with the cap of a segment
    ([segment_cap.v]: Lemmas 3 and 6) gives Theorem 2. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments machine segment_cap.
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

Lemma count_sum (T : Type) (a : pred T) s : count a s = \sum_(x <- s) (a x : nat).
Proof. by elim: s => [|x s IH]; rewrite ?big_nil ?big_cons //= IH. Qed.

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

Definition prodE c (ij : nat * nat) : aproduct_eqType := E ij.1 ij.2 c.
Definition prodF l (ij : nat * nat) : aproduct_eqType := F ij.1 ij.2 l.
Definition score (ij : nat * nat) : aword_eqType := S ij.1 ij.2.

Lemma inE_ ij c : ij \in pairs -> c < d -> prodE c ij \in products t.
Proof.
move=> pin lt; rewrite mem_cat; apply/orP; left; apply/allpairsP.
by exists (ij, c); rewrite mem_iota add0n.
Qed.

Lemma inF_ ij l : ij \in pairs -> l < dv -> prodF l ij \in products t.
Proof.
move=> pin lt; rewrite mem_cat; apply/orP; right; apply/allpairsP.
by exists (ij, l); rewrite mem_iota add0n.
Qed.

Lemma score_input ij : score ij \notin inputs t.
Proof. by rewrite !mem_cat; apply/negP => /or3P[] /allpairsP[? [_ _]]. Qed.

Lemma out_spill ij l : ij \in pairs -> l < dv -> spilled (O ij.1 l).
Proof.
move=> pin lt; apply: (out_spilled o0 ok).
  by apply/allpairsP; exists (ij, l); rewrite mem_iota add0n.
by rewrite !mem_cat; apply/negP => /or3P[] /allpairsP[? [_ _]].
Qed.

(** ** Distinct rows and columns, and the words that products touch *)

Definition side (f : nat * nat -> nat) (a : pred (nat * nat)) := undup [seq f ij | ij <- pairs & a ij].
Definition rows := side fst.
Definition cols := side snd.

Lemma sideP f (a : pred (nat * nat)) r :
  reflect (exists2 ij, ij \in pairs /\ a ij & r = f ij) (r \in side f a).
Proof.
rewrite mem_undup; apply: (iffP mapP) => -[ij].
  by rewrite mem_filter => /andP[aij pin] ->; exists ij.
by case=> pin aij ->; exists ij => //; rewrite mem_filter aij.
Qed.

Definition rowsP := sideP fst.
Definition colsP := sideP snd.

Lemma box (a : pred (nat * nat)) : count a pairs <= size (rows a) * size (cols a).
Proof.
rewrite -size_filter -(size_allpairs pair); apply: uniq_leq_size; first exact: filter_uniq.
move=> [i j]; rewrite mem_filter => /andP[aij pin].
by apply: allpairs_f; rewrite mem_undup; apply/mapP; exists (i, j); rewrite // mem_filter aij.
Qed.

(** [e c] and [f l] are the pairs whose products of column [c], or [l], are made;
    [s] are pairs whose score is paid. *)
Definition words (e f : nat -> pred (nat * nat)) (s : seq (nat * nat)) : seq aword_eqType :=
  [seq Q r c | c <- iota 0 d, r <- rows (e c)]
  ++ [seq K r c | c <- iota 0 d, r <- cols (e c)]
  ++ [seq V r l | l <- iota 0 dv, r <- cols (f l)]
  ++ [seq O r l | l <- iota 0 dv, r <- rows (f l)]
  ++ map score s.

Lemma words_uniq e f s : uniq s -> uniq (words e f s).
Proof.
move=> us; rewrite /words.
have un m (g : nat -> seq nat) (h : nat -> nat -> aword_eqType) : (forall c, uniq (g c)) ->
    (forall r c r' c', h r c = h r' c' -> r = r' /\ c = c') ->
    uniq [seq h r c | c <- iota 0 m, r <- g c].
  move=> ug inj; apply: allpairs_uniq_dep => [|c _|]; [exact: iota_uniq | exact: ug |].
  by move=> [c r] [c' r'] _ _ /= /inj[-> ->].
rewrite !cat_uniq !un ?(map_inj_uniq (f := score)) ?us //=;
  try by [move=> [? ?] [? ?] [/= -> ->] | move=> ? ? ? ? [-> ->] | move=> ?; exact: undup_uniq].
rewrite !andbT; apply/and4P; split; apply/hasPn => x; rewrite ?mem_cat.
- by move=> /or4P[|||] => [/allpairsPdep[? [? [_ _ ->]]]|/allpairsPdep[? [? [_ _ ->]]]
    |/allpairsPdep[? [? [_ _ ->]]]|/mapP[? _ ->]]; apply/negP => /allpairsPdep[? [? [_ _]]].
- by move=> /or3P[] => [/allpairsPdep[? [? [_ _ ->]]]
    |/allpairsPdep[? [? [_ _ ->]]]|/mapP[? _ ->]]; apply/negP => /allpairsPdep[? [? [_ _]]].
- by move=> /orP[] => [/allpairsPdep[? [? [_ _ ->]]]|/mapP[? _ ->]];
    apply/negP => /allpairsPdep[? [? [_ _]]].
by move=> /mapP[? _ ->]; apply/negP => /allpairsPdep[? [? [_ _]]].
Qed.

Lemma words_size e f s :
  size (words e f s) = \sum_(c < d) size (rows (e c)) + \sum_(c < d) size (cols (e c))
    + \sum_(l < dv) size (cols (f l)) + \sum_(l < dv) size (rows (f l)) + size s.
Proof.
have sz (T : Type) m (g : nat -> seq nat) (h : nat -> nat -> T) :
    size [seq h r c | c <- iota 0 m, r <- g c] = \sum_(c < m) size (g c).
  by rewrite size_allpairs_dep sumnE big_map -(big_mkord xpredT (fun c => size (g c))) /index_iota subn0.
by rewrite !size_cat !sz size_map !addnA.
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
Definition segs ij := segsE ij ++ [seq segF l ij | l <- iota 0 dv].
Definition first ij := lo (segsE ij).
Definition final ij := hi (segs ij).

Lemma segE_in ij c : c < d -> segE c ij \in segs ij.
Proof. by move=> lt; rewrite mem_cat; apply/orP; left; apply: map_f; rewrite mem_iota. Qed.

Lemma segF_in ij l : l < dv -> segF l ij \in segs ij.
Proof.
by move=> lt; rewrite mem_cat; apply/orP; right; apply/mapP; exists l; rewrite ?mem_iota.
Qed.

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

Lemma leq_visits i (f : nat * nat -> nat) : {in pairs, forall ij, f ij \in segs ij} ->
  count (fun ij => f ij == i) pairs
    <= count (inner i) pairs + count (visit i) pairs + count (fresh i) pairs.
Proof.
move=> fin; rewrite !count_sum -!big_split /= big_seq [X in _ <= X]big_seq.
apply: leq_sum => ij pin; case: eqP => // fi; have := visits (i := i) pin.
rewrite -{1}fi fin // => /(_ isT).
by case: (inner i ij); case: (visit i ij); case: (fresh i ij).
Qed.

(** Lemma 4: at most one inner or free visit a pair, and another visit after it. *)
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
have := words_size (e i) (f i) [seq ij <- pairs | visit i ij].
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

Lemma sub_first i (a : pred (nat * nat)) : {in pairs, forall ij, inner i ij -> a ij} ->
  size (rows (inner i)) <= size (rows a) /\ size (cols (inner i)) <= size (cols a).
Proof.
move=> sub; split; apply: uniq_leq_size; rewrite ?undup_uniq //;
  by move=> r /sideP[ij [pin iij] ->]; apply/sideP; exists ij => //; split=> //; apply: sub.
Qed.

Lemma segment_work i : 5 * (d + dv) ^ 2 <= 8 * M ->
  200 * (d + dv) * (\sum_(c < d) count (e i c) pairs + \sum_(l < dv) count (f i l) pairs)
    + 36 * (d + dv) ^ 2 * count (visit i) pairs
  <= 189 * M ^ 2 + 11 * (d + dv) ^ 2 * (count (fresh i) pairs + count (inner i) pairs)
    + 36 * (d + dv) ^ 2 * count (fresh i) pairs.
Proof.
move=> large.
have subE (c : 'I_d) : {in pairs, forall ij, inner i ij -> e i c ij}.
  by move=> ij pin inn; apply: inner_all inn (segE_in _ (ltn_ord c)).
have subF (l : 'I_dv) : {in pairs, forall ij, inner i ij -> f i l ij}.
  by move=> ij pin inn; apply: inner_all inn (segF_in _ (ltn_ord l)).
apply: (@segment_cap_widths d dv M (fun c => count (e i c) pairs) (fun c => size (rows (e i c)))
  (fun c => size (cols (e i c))) (fun l => count (f i l) pairs)
  (fun l => size (rows (f i l))) (fun l => size (cols (f i l)))
  (size (rows (inner i))) (size (cols (inner i)))) => //.
- by rewrite addn_gt0 d_gt0.
- by move=> c; apply: leq_visits => ij _; apply: segE_in.
- by move=> c; apply: box.
- by move=> c; case: (sub_first (subE c)).
- by move=> c; case: (sub_first (subE c)).
- by move=> c; apply: leq_visits => ij _; apply: segF_in.
- by move=> c; apply: box.
- by move=> c; case: (sub_first (subF c)).
- by move=> c; case: (sub_first (subF c)).
- exact: box.
- exact: fresh_size.
exact: segment_words.
Qed.

(** ** The whole schedule *)

Lemma parts_needed : 5 * (d + dv) ^ 2 <= 8 * M -> size pairs * (d + dv) ^ 2 <= parts * M ^ 2.
Proof.
move=> large; apply: segments_needed_widths (fun i : 'I_parts => segment_work i large) _ _ free_once free_paid.
  by apply: work_of_parts => ij c pin ltc; apply: segs_lt (segE_in _ ltc).
by apply: work_of_parts => ij c pin ltc; apply: segs_lt (segF_in _ ltc).
Qed.

(** Every word of Q, K and V is loaded, and every word of O is stored. *)
Lemma compulsory : (d + dv) * (size (rows predT) + size (cols predT)) <= cost ops.
Proof.
have := @paid_cost _ _ _ _ _ o0 ok _ (words_uniq (fun=> predT) (fun=> predT) (s := [::]) isT).
rewrite words_size !sum_nat_const !card_ord addn0 => le.
apply: leq_trans (le _) => [|w].
  by move: (size (rows _)) (size (cols _)) => R K; apply: eq_leq; ring.
apply: words_paid => //.
- by move=> c ij pin ltc _; rewrite /=; case: (op_pos o0 ok (inE_ pin ltc)).
by move=> c ij pin ltc _; rewrite /=; case: (op_pos o0 ok (inF_ pin ltc)).
Qed.

Theorem once_bound : 5 * (d + dv) ^ 2 <= 8 * M -> size pairs * (d + dv) ^ 2 <= cost ops * M.
Proof.
move=> /parts_needed; apply: bound_of_parts compulsory (parts_cost ok M_gt0).
by have := box predT; rewrite count_predT.
Qed.

End Once.
