(** * The product of two matrices: 2mnk / sqrt M - M

    See [proofs/matmul_tight.md].  The schedules are those of [model.v]: each
    entry has one accumulator (Lemma 4 of that page, by which trees of additions
    and recomputation gain nothing, is not formalised here). *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments machine.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Product.
Variables (m n k M : nat) (ops : seq (op mword_eqType mproduct_eqType)).
Hypothesis ok : computes M (matrix_product m n k) ops.
Hypothesis M_gt0 : 0 < M.

Local Notation t := (matrix_product m n k).
Local Notation o0 := (@Drop mword_eqType mproduct_eqType (A 0 0)).
Local Notation pos := (pos ops).

Definition triple p := let: Mul i j l := p in (i, j, l).
Lemma triple_inj : injective triple. Proof. by move=> [i j l] [i' j' l'] [-> -> ->]. Qed.

Lemma products_uniq : uniq (products t).
Proof.
apply: allpairs_uniq; rewrite ?iota_uniq //; last by move=> [[? ?] ?] [[? ?] ?] _ _ [-> -> ->].
by apply: allpairs_uniq; rewrite ?iota_uniq // => -[? ?] [? ?] _ _ [-> ->].
Qed.

Lemma products_size : size (products t) = m * n * k.
Proof. by rewrite size_allpairs size_allpairs !size_iota. Qed.

Lemma sum_spilled p : p \in products t -> spilled ops (sum t p).
Proof.
move=> /allpairsP[[ij l] [/allpairsP[[i j] [iin jin ->]] _ ->]] /=.
apply: (out_spilled o0 ok); first by apply/allpairsP; exists (i, j).
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

Lemma words_size X : uniq X -> 27 * size X ^ 2 <= size (words X) ^ 3.
Proof.
move=> uX; have uT : uniq (map triple X) by rewrite map_inj_uniq //; exact: triple_inj.
have := Loomis_Whitney uT; rewrite size_map -(leq_pmul2l (isT : 0 < 27)) => /leq_trans; apply.
by rewrite !size_cat !size_map addnA; apply: am_gm.
Qed.

Lemma words_paid X s e w : {subset X <= products t} ->
  {in X, forall p, s <= pos p < e} -> e <= size ops -> w \in words X ->
  paid M t ops o0 s e w.
Proof.
move=> sub inse le; rewrite !mem_cat => /or3P[] /mapP[x];
  rewrite mem_undup => /mapP[_ /mapP[p pX ->] ->] ->; have := inse p pX; have := sub p pX.
- move=> pin pse; apply: (@operand_paid _ _ _ _ _ o0 ok _ _ _ _ pin pse le) => [|[] //].
  by case: p {pX pin pse} => i j l; rewrite inE eqxx.
- move=> pin pse; apply: (@operand_paid _ _ _ _ _ o0 ok _ _ _ _ pin pse le) => [|[] //].
  by case: p {pX pin pse} => i j l; rewrite !inE eqxx orbT.
move=> pin pse; have := sum_paid o0 ok pin pse le (sum_spilled pin).
by case: p {pX pin pse}.
Qed.

Let S_gt0 : 0 < 2 * M. Proof. by rewrite muln_gt0. Qed.
Local Notation seg := (seg M t ops o0 (2 * M)).
Local Notation parts := (parts M t ops o0 (2 * M)).

(** A segment has at most M^(3/2) products. *)
Lemma segment_products i : count (fun p => (seg p == i) && true) (products t) ^ 2 <= M ^ 3.
Proof.
set X := [seq p <- products t | (seg p == i) && true].
have -> : count (fun p => (seg p == i) && true) (products t) = size X by rewrite size_filter.
have uX : uniq X by rewrite filter_uniq // products_uniq.
have sub : {subset X <= products t} by move=> p; rewrite mem_filter => /andP[].
rewrite -(leq_pmul2l (isT : 0 < 27)); apply: leq_trans (words_size uX) _.
have -> : 27 * M ^ 3 = (M + 2 * M) ^ 3 by rewrite -mulSn expnMn.
rewrite leq_exp2r //.
apply: (paid_segment ok S_gt0 (i := i)) (words_uniq X) _ => w.
apply: words_paid => //; last exact: border_size.
by move=> p pX; rewrite -(in_seg o0 ok) ?sub //; move: pX; rewrite mem_filter andbT => /andP[].
Qed.

Theorem product_cold : 4 * (m * n * k) ^ 2 <= (cost ops + M) ^ 2 * M.
Proof.
have all_words : 27 * (m * n * k) ^ 2 <= cost ops ^ 3.
  rewrite -products_size; apply: leq_trans (words_size products_uniq) _.
  rewrite leq_exp2r //; apply: (@paid_cost _ _ _ _ _ o0 ok _ (words_uniq _)) => w.
  by apply: words_paid => // p pin /=; have [] := op_pos o0 ok pin.
have all_parts : (m * n * k) ^ 2 <= parts ^ 2 * M ^ 3.
  rewrite -products_size -(count_predT (products t)).
  rewrite -(@sum_parts _ _ seg predT parts); last by move=> p; apply: (seg_lt o0 ok).
  apply: leq_trans (Cauchy _ _) _.
  rewrite {1}/index_enum -enumT size_enum_ord -mulnn -mulnA leq_mul2l; apply/orP; right.
  apply: (@leq_trans (\sum_(i < parts) M ^ 3)); first by apply: leq_sum => i _; apply: segment_products.
  by rewrite sum_nat_const card_ord.
have [one|two] := leqP parts 1.
  have [le|gt] := leqP M (cost ops); last first.
    apply: (@leq_trans (cost ops ^ 3)).
      by apply: leq_trans all_words; rewrite leq_mul2r orbT.
    rewrite expnSr leq_mul //; last exact: ltnW.
    by rewrite leq_exp2r // leq_addr.
  apply: (@leq_trans (4 * M ^ 3)).
    rewrite leq_mul2l /=; apply: leq_trans all_parts _.
    have p2 : parts ^ 2 <= 1 by rewrite -(exp1n 2) leq_exp2r.
    by have := leq_mul p2 (leqnn (M ^ 3)); rewrite mul1n.
  have -> : 4 * M ^ 3 = (M + M) ^ 2 * M by rewrite addnn -mul2n expnMn -mulnA -expnSr.
  by rewrite leq_mul2r leq_exp2r // leq_add2r le orbT.
have := parts_cost ok S_gt0 two; rewrite -(leq_add2r M) => le.
have {}le : 2 * M * parts <= cost ops + M.
  apply: leq_trans le; rewrite addnAC addnn -mul2n -mulnS prednK //.
rewrite -(leq_exp2r _ _ (isT : 0 < 2)) in le.
apply: leq_trans (leq_mul le (leqnn M)).
have -> : (2 * M * parts) ^ 2 * M = 4 * (parts ^ 2 * M ^ 3).
  by rewrite !(expnS, expn0, muln1); ring.
by rewrite leq_mul2l.
Qed.

End Product.
