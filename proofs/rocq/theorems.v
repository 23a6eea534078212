(** * The theorems

    What [model.v] defines, and these statements, are what a reader has to
    believe; the rest is checked. *)

From Coq Require Import Reals Lra.
From mathcomp Require Import all_ssreflect.
From iosim Require Import model machine product segment_cap once possible.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** ** The product of an m x k and a k x n matrix: over the natural numbers *)

Theorem product_words m n k M ops : computes M (matrix_product m n k) ops ->
  4 * (m * n * k) ^ 2 <= (cost ops + M) ^ 2 * M.
Proof.
move=> ok; case: M ok => [|M] ok; last exact: product_cold ok isT.
case: (posnP (m * n * k)) => [->//|]; rewrite !muln_gt0 => /andP[/andP[m0 n0] k0].
have pin : Mul 0 0 0 \in products (matrix_product m n k).
  by apply/allpairsP; exists ((0, 0), 0); split; rewrite ?mem_iota //;
    apply/allpairsP; exists (0, 0); rewrite !mem_iota.
have [lt o] := op_pos (Drop (A 0 0)) ok pin; have [_ _ + _ _] := op_do ok lt o.
have [_] := fast_ok (Drop (A 0 0)) ok (ltnW lt).
by rewrite leqn0 size_eq0 => /eqP->.
Qed.

(** ** Attention over any set of pairs of a row and a key

    With [dv] columns of V and O and [d] of Q and K, and with as many. *)

Theorem attention_pairs_widths pairs d dv M ops : uniq pairs -> 0 < d ->
  5 * (d + dv) ^ 2 <= 8 * M -> computes M (attention_widths pairs d dv) ops ->
  size pairs * (d + dv) ^ 2 <= cost ops * M.
Proof.
move=> un d_gt0 large ok.
have : 0 < 8 * M by apply: leq_trans large; rewrite muln_gt0 expn_gt0 addn_gt0 d_gt0.
by rewrite muln_gt0 => /andP[_ M_gt0]; apply: once_bound ok large.
Qed.

Theorem attention_pairs pairs d M ops : uniq pairs -> 5 * d ^ 2 <= 2 * M ->
  computes M (attention pairs d) ops -> 4 * size pairs * d ^ 2 <= cost ops * M.
Proof.
move=> un large ok; case: (posnP d) => [->|d_gt0]; first by rewrite muln0.
have four x : x * (d + d) ^ 2 = 4 * x * d ^ 2 by rewrite !(expnS, expn0, muln1); ring.
have := attention_pairs_widths un d_gt0 _ ok; rewrite !four; apply.
by rewrite (_ : 8 = 4 * 2) // -!mulnA leq_mul2l.
Qed.

(** ** H heads of N rows, and a causal mask *)

Lemma size_heads H N : size (heads H N) = H * N ^ 2.
Proof. by rewrite !size_allpairs !size_iota. Qed.

Lemma heads_uniq H N : uniq (heads H N).
Proof.
apply: allpairs_uniq; first exact: iota_uniq.
  by apply: allpairs_uniq; rewrite ?iota_uniq // => -[? ?] [? ?] _ _ [-> ->].
move=> [h ij] [h' ij'] /allpairsP[[x [a b]] [_ /allpairsP[[i j] [iin jin [-> ->]]] [-> ->]]].
move=> /allpairsP[[x' [a' b']] [_ /allpairsP[[i' j'] [iin' jin' [-> ->]]] [-> ->]]] /= [].
move: iin jin iin' jin'; rewrite !mem_iota /= => li lj li' lj' ei ej.
have split u v w z : v < N -> z < N -> u * N + v = w * N + z -> u = w /\ v = z.
  move=> lv lz e; have N_gt0 : 0 < N by apply: leq_ltn_trans lv.
  have := congr1 (divn^~ N) e; have := congr1 (modn^~ N) e.
  by rewrite !modnMDl !modn_small // !divnMDl // !divn_small // !addn0 => -> ->.
by have [-> ->] := split _ _ _ _ li li' ei; have [_ ->] := split _ _ _ _ lj lj' ej.
Qed.

Lemma size_causal N : 2 * size (causal N) = N * N.+1.
Proof.
rewrite /causal size_allpairs_dep; under eq_map do rewrite size_iota.
elim: N => // N IH; have -> : iota 0 N.+1 = iota 0 N ++ [:: N] by rewrite -addn1 iotaD.
rewrite map_cat sumn_cat mulnDr IH /= addn0.
by rewrite -mulnDl addn2 mulnC.
Qed.

Lemma causal_uniq N : uniq (causal N).
Proof.
by apply: allpairs_uniq_dep => [|i _|[? ?] [? ?] _ _ [-> ->]]; rewrite ?iota_uniq.
Qed.

Theorem attention_heads H N d M ops : 5 * d ^ 2 <= 2 * M ->
  computes M (attention (heads H N) d) ops -> 4 * H * N ^ 2 * d ^ 2 <= cost ops * M.
Proof. by move=> le /(attention_pairs (heads_uniq H N) le); rewrite size_heads mulnA. Qed.

Theorem attention_causal N d M ops : 5 * d ^ 2 <= 2 * M ->
  computes M (attention (causal N) d) ops -> 2 * (N * N.+1) * d ^ 2 <= cost ops * M.
Proof.
move=> le /(attention_pairs (causal_uniq N) le).
by rewrite -size_causal mulnA.
Qed.

(** ** None of them is vacuous: there are schedules for every size *)

Theorem product_possible m n k M : 0 < k -> 3 <= M ->
  exists ops, computes M (matrix_product m n k) ops.
Proof. exact: product_each. Qed.

Theorem attention_possible_widths pairs d dv M : uniq pairs -> 0 < d -> 3 <= M ->
  exists ops, computes M (attention_widths pairs d dv) ops.
Proof. exact: attention_each. Qed.

Theorem attention_possible pairs d M : uniq pairs -> 0 < d -> 5 * d ^ 2 <= 2 * M ->
  exists ops, computes M (attention pairs d) ops.
Proof.
move=> un d_gt0 large; apply: attention_each => //; rewrite -(ltn_pmul2l (isT : 0 < 2)).
by apply: leq_trans large; rewrite -{1}[5]muln1 leq_mul2l expn_gt0 d_gt0.
Qed.

(** ** As the pages of the proofs write them *)

Local Open Scope R_scope.

Lemma tight_words x M Q : (0 < M)%N -> (4 * x ^ 2 <= (Q + M) ^ 2 * M)%N ->
  INR Q >= 2 * INR x / sqrt (INR M) - INR M.
Proof.
move=> M_gt0 /INR_leq; rewrite 2!INRM 2!INR2 INRD => le.
have s0 : 0 < INR M by apply: lt_0_INR; apply/ltP.
have : 2 * INR x / sqrt (INR M) <= INR Q + INR M; last by lra.
move: le; rewrite (_ : INR 4 = 4); last by rewrite /=; lra.
move: (pos_INR Q) (pos_INR x) s0; move: (INR Q) (INR x) (INR M) => c f s c0 f0 s0 {}le.
have r0 : 0 < sqrt s by apply: sqrt_lt_R0.
have ss : sqrt s * sqrt s = s by apply: sqrt_sqrt; lra.
apply: (Rmult_le_reg_r (sqrt s)) => //.
have -> : 2 * f / sqrt s * sqrt s = 2 * f by field; lra.
apply: Rsqr_incr_0_var; last by apply: Rmult_le_pos; lra.
have -> : ((c + s) * sqrt s)² = (c + s) ^ 2 * (sqrt s * sqrt s) by rewrite /Rsqr; ring.
rewrite ss.
by rewrite /Rsqr; lra.
Qed.

Theorem matrix_product_tight m n k M ops : (0 < M)%N ->
  computes M (matrix_product m n k) ops ->
  INR (cost ops) >= 2 * INR m * INR n * INR k / sqrt (INR M) - INR M.
Proof. by move=> M_gt0 /product_words/(tight_words M_gt0); rewrite !INRM -!Rmult_assoc. Qed.

(** Irony, Toledo and Tiskin's bound, which is smaller. *)
Corollary matrix_product_irony m n k M ops : (0 < M)%N ->
  computes M (matrix_product m n k) ops ->
  INR (cost ops) >= INR m * INR n * INR k / (2 * sqrt 2 * sqrt (INR M)) - INR M.
Proof.
move=> M_gt0 /(matrix_product_tight M_gt0); set b := _ / sqrt _.
have r0 : 0 < sqrt (INR M) by apply/sqrt_lt_R0/lt_0_INR/ltP.
have r2 : 1 < sqrt 2 by rewrite -sqrt_1; apply: sqrt_lt_1; lra.
have b0 : 0 <= b.
  apply: Rmult_le_pos; last by apply/Rlt_le/Rinv_0_lt_compat.
  by do !apply: Rmult_le_pos; try apply: pos_INR; lra.
have -> : INR m * INR n * INR k / (2 * sqrt 2 * sqrt (INR M)) = b * / (4 * sqrt 2).
  by rewrite /b; field; lra.
have : b * / (4 * sqrt 2) <= b * 1.
  by apply: Rmult_le_compat_l => //; rewrite -Rinv_1; apply: Rinv_le_contravar; lra.
lra.
Qed.

(** From the natural numbers to a quotient; [k] is 5/2, or 4 in [theorems_classes.v]. *)
Lemma quotient (k : R) H N d M c : 0 < k -> k * INR d ^ 2 <= INR M ->
  (4 * H * N ^ 2 * d ^ 2 <= c * M)%N ->
  INR c >= 4 * INR H * INR N ^ 2 * INR d ^ 2 / INR M.
Proof.
move=> k0 large /INR_leq; have c0 := pos_INR c.
rewrite 3!INRM 2!INR2 INRM (_ : INR 4 = 4); last by rewrite /=; lra.
have [M0|M_gt0] := Req_dec (INR M) 0.
  have -> : INR d ^ 2 = 0 by have := pow2_ge_0 (INR d); nra.
  by move=> _; rewrite Rmult_0_r /Rdiv Rmult_0_l; lra.
have {}M_gt0 : 0 < INR M by have := pos_INR M; lra.
move=> le; apply/Rle_ge/(Rmult_le_reg_r (INR M)) => //.
by rewrite /Rdiv Rmult_assoc Rinv_l; lra.
Qed.

Lemma five_halves d M : 5 / 2 * INR d ^ 2 <= INR M -> (5 * d ^ 2 <= 2 * M)%N.
Proof.
move=> large; have five : INR 5 = 5 by rewrite /=; lra.
have two : INR 2 = 2 by [].
by apply: leq_INR; rewrite INRM INR2 INRM five two; lra.
Qed.

Theorem attention_once H N d M ops : 5 / 2 * INR d ^ 2 <= INR M ->
  computes M (attention (heads H N) d) ops ->
  INR (cost ops) >= 4 * INR H * INR N ^ 2 * INR d ^ 2 / INR M.
Proof.
move=> large /(attention_heads (five_halves large)).
by apply: quotient large; lra.
Qed.
