(** * The product of two matrices: 2mnk / sqrt M - M

    See [proofs/matmul_tight.md].  The schedules are those of [model.v]: each
    entry has one accumulator (Lemma 4 of that page, by which trees of additions
    and recomputation gain nothing, is not formalized here). *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments machine.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** ** What segments that touch few words come to *)

Section Counting.
Variables m n k : nat.
Local Notation t := (matrix_product m n k).

Definition triple p := let: Mul i j l := p in (i, j, l).
Lemma triple_inj : injective triple. Proof. by move=> [i j l] [i' j' l'] [-> -> ->]. Qed.

Lemma products_uniq : uniq (products t).
Proof.
apply: allpairs_uniq; rewrite ?iota_uniq //; last by move=> [[? ?] ?] [[? ?] ?] _ _ [-> -> ->].
by apply: allpairs_uniq; rewrite ?iota_uniq // => -[? ?] [? ?] _ _ [-> ->].
Qed.

Lemma products_size : size (products t) = m * n * k.
Proof. by rewrite size_allpairs size_allpairs !size_iota. Qed.

Lemma sum_output p : p \in products t -> sum t p \in outputs t /\ sum t p \notin inputs t.
Proof.
move=> /allpairsP[[ij l] [/allpairsP[[i j] [iin jin ->]] _ ->]] /=; split.
  by apply/allpairsP; exists (i, j).
by rewrite mem_cat; apply/negP => /orP[] /allpairsP[? [_ _]].
Qed.

(** The words that a set of products touches. *)
Definition words (X : seq mproduct_eqType) : seq mword_eqType :=
  [seq A il.1 il.2 | il <- undup (map faceA (map triple X))]
  ++ [seq B lj.1 lj.2 | lj <- undup (map faceB (map triple X))]
  ++ [seq C ij.1 ij.2 | ij <- undup (map faceC (map triple X))].

Lemma words_uniq X : uniq (words X).
Proof.
have un (T U : eqType) (f : T -> U) (Y : seq T) : injective f -> uniq (map f (undup Y)).
  by move=> inj; rewrite map_inj_uniq ?undup_uniq.
rewrite !cat_uniq !un ?andbT /=; try by move=> [? ?] [? ?] [/= -> ->].
apply/andP; split; apply/hasPn => x; rewrite ?mem_cat.
  by move=> /orP[] /mapP[? _ ->]; apply/mapP => -[].
by move=> /mapP[? _ ->]; apply/mapP => -[].
Qed.

Lemma wordsP X w : w \in words X ->
  exists2 p, p \in X & w \in [:: left t p; right t p] /\ (forall q, sum t q != w) \/ w = sum t p.
Proof.
rewrite !mem_cat => /or3P[] /mapP[x];
  rewrite mem_undup => /mapP[_ /mapP[p pX ->] ->] ->; exists p => //; case: p {pX} => i j l.
- by left; split=> [|[]]; rewrite ?inE ?eqxx.
- by left; split=> [|[]]; rewrite ?inE ?eqxx ?orbT.
by right.
Qed.

Lemma words_size X : uniq X -> 27 * size X ^ 2 <= size (words X) ^ 3.
Proof.
move=> uX; have uT : uniq (map triple X) by rewrite map_inj_uniq //; exact: triple_inj.
have := Loomis_Whitney uT; rewrite size_map -(leq_pmul2l (isT : 0 < 27)) => /leq_trans; apply.
by rewrite !size_cat !size_map addnA; apply: am_gm.
Qed.

(** Each product is in a segment, [3 * M] words are touched in one, and [parts]
    segments cost [M + 2 * M * parts.-1]. *)
Theorem cold (M cost parts : nat) (seg : mproduct_eqType -> nat) :
  size (words (products t)) <= cost -> {in products t, forall p, seg p < parts} ->
  (forall i, size (words [seq p <- products t | seg p == i]) <= M + 2 * M) ->
  (1 < parts -> M + 2 * M * parts.-1 <= cost) ->
  4 * (m * n * k) ^ 2 <= (cost + M) ^ 2 * M.
Proof.
move=> touched lt few many.
have all_words : 27 * (m * n * k) ^ 2 <= cost ^ 3.
  rewrite -products_size; apply: leq_trans (words_size products_uniq) _.
  by rewrite leq_exp2r.
have segment i : count (fun p => (seg p == i) && true) (products t) ^ 2 <= M ^ 3.
  rewrite (eq_count (fun p => andbT (seg p == i))) -size_filter -(leq_pmul2l (isT : 0 < 27)).
  apply: leq_trans (words_size (filter_uniq _ products_uniq)) _.
  by rewrite (_ : 27 * M ^ 3 = (M + 2 * M) ^ 3) ?leq_exp2r // -mulSn expnMn.
have all_parts : (m * n * k) ^ 2 <= parts ^ 2 * M ^ 3.
  rewrite -products_size -(count_predT (products t)) -(sum_parts predT lt).
  apply: leq_trans (Cauchy _ _) _.
  rewrite {1}/index_enum -enumT size_enum_ord -mulnn -mulnA leq_mul2l; apply/orP; right.
  apply: (@leq_trans (\sum_(i < parts) M ^ 3)); first by apply: leq_sum => i _; apply: segment.
  by rewrite sum_nat_const card_ord.
have [one|two] := leqP parts 1.
  have [le|gt] := leqP M cost; last first.
    apply: (@leq_trans (cost ^ 3)); first by apply: leq_trans all_words; rewrite leq_mul2r orbT.
    by rewrite expnSr leq_mul ?leq_exp2r ?leq_addr // ltnW.
  apply: (@leq_trans (4 * M ^ 3)).
    rewrite leq_mul2l /=; apply: leq_trans all_parts _.
    have p2 : parts ^ 2 <= 1 by rewrite -(exp1n 2) leq_exp2r.
    by have := leq_mul p2 (leqnn (M ^ 3)); rewrite mul1n.
  have -> : 4 * M ^ 3 = (M + M) ^ 2 * M by rewrite addnn -mul2n expnMn -mulnA -expnSr.
  by rewrite leq_mul2r leq_exp2r // leq_add2r le orbT.
have := many two; rewrite -(leq_add2r M) addnAC addnn -mul2n -mulnS prednK ?(ltnW two) // => {}le.
rewrite -(leq_exp2r _ _ (isT : 0 < 2)) in le.
apply: leq_trans (leq_mul le (leqnn M)).
have -> : (2 * M * parts) ^ 2 * M = 4 * (parts ^ 2 * M ^ 3).
  by rewrite !(expnS, expn0, muln1); ring.
by rewrite leq_mul2l.
Qed.

End Counting.

Section Product.
Variables (m n k M : nat) (ops : seq (op mword_eqType mproduct_eqType)).
Hypothesis ok : computes M (matrix_product m n k) ops.
Hypothesis M_gt0 : 0 < M.

Local Notation t := (matrix_product m n k).
Local Notation o0 := (@Drop mword_eqType mproduct_eqType (A 0 0)).
Local Notation pos := (pos ops).

Lemma words_paid X s e w : {subset X <= products t} ->
  {in X, forall p, s <= pos p < e} -> e <= size ops -> w \in words X ->
  paid M t ops o0 s e w.
Proof.
move=> sub inse le /(wordsP m n k)[p pX]; have pin := sub p pX; have pse := inse p pX.
case=> [[win no]|->]; first exact: (@operand_paid _ _ _ _ _ o0 ok _ _ _ _ pin pse le).
apply: (sum_paid o0 ok pin pse le).
by have [out inp] := sum_output pin; apply: (out_spilled o0 ok).
Qed.

Theorem product_cold : 4 * (m * n * k) ^ 2 <= (cost ops + M) ^ 2 * M.
Proof.
have S_gt0 : 0 < 2 * M by rewrite muln_gt0.
apply: (@cold _ _ _ _ _ (parts M t ops o0 (2 * M)) (seg M t ops o0 (2 * M))).
- apply: (@paid_cost _ _ _ _ _ o0 ok _ (words_uniq _)) => w.
  by apply: words_paid => // p pin /=; have [] := op_pos o0 ok pin.
- by move=> p; apply: (seg_lt o0 ok).
- move=> i; apply: (paid_segment ok S_gt0 (i := i)) (words_uniq _) _ => w.
  apply: words_paid; [by move=> p; rewrite mem_filter => /andP[] | | exact: border_size].
  by move=> p; rewrite mem_filter => /andP[si pin]; rewrite -(in_seg o0 ok).
exact: parts_cost.
Qed.

End Product.
