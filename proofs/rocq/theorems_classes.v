(** * The theorems for the four classes

    What [classes.v] defines, and these statements, are what a reader has to
    believe; the rest is checked. *)

From Coq Require Import Reals Lra.
From mathcomp Require Import all_ssreflect.
From iosim Require Import model segment_cap possible product theorems classes stays product_classes
  trees recompute inclusions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** ** Each product executed once, sums by any trees: any set of pairs *)

Theorem trees_pairs_widths c pairs d dv M ops : again c = false -> uniq pairs -> 0 < d -> 0 < dv ->
  5 * (d + dv) ^ 2 <= 8 * M -> attains c M (attention_widths pairs d dv) ops ->
  size pairs * (d + dv) ^ 2 <= traffic ops * M.
Proof.
move=> ag un d_gt0 dv_gt0 large ok; have : 0 < 8 * M.
  by apply: leq_trans large; rewrite muln_gt0 expn_gt0 addn_gt0 d_gt0.
by rewrite muln_gt0 => /andP[_ M_gt0]; apply: trees_bound ok _.
Qed.

Theorem trees_pairs pairs d M ops : uniq pairs -> 5 * d ^ 2 <= 2 * M ->
  attains trees M (attention pairs d) ops -> 4 * size pairs * d ^ 2 <= traffic ops * M.
Proof.
move=> un large ok; case: (posnP d) => [->|d_gt0]; first by rewrite muln0.
have -> : 4 * size pairs * d ^ 2 = size pairs * (d + d) ^ 2.
  by rewrite addnn -mul2n expnMn mulnCA mulnA.
apply: trees_pairs_widths ok => //.
rewrite addnn -mul2n expnMn mulnCA (_ : 8 * M = 4 * (2 * M)); first by rewrite leq_pmul2l.
by rewrite mulnA.
Qed.

(** ** Any class: products may be executed again, and partial sums added *)

Theorem every_class_widths c pairs d dv M ops : uniq pairs -> 0 < d -> 0 < dv ->
  2 * d * (d + dv) <= M -> attains c M (attention_widths pairs d dv) ops ->
  size pairs * ((d + dv) ^ 2 - (dv - d) ^ 2) <= traffic ops * M.
Proof.
move=> un d_gt0 dv_gt0 large ok.
have M_gt0 : 0 < M by apply: leq_trans large; rewrite !muln_gt0 addn_gt0 d_gt0.
exact: recompute_bound ok large.
Qed.

Theorem every_class_pairs c pairs d M ops : uniq pairs -> 4 * d ^ 2 <= M ->
  attains c M (attention pairs d) ops -> 4 * size pairs * d ^ 2 <= traffic ops * M.
Proof.
move=> un large ok; case: (posnP d) => [->|d_gt0]; first by rewrite muln0.
have := every_class_widths un d_gt0 d_gt0 _ ok; rewrite subnn subn0.
have -> : size pairs * (d + d) ^ 2 = 4 * size pairs * d ^ 2.
  by rewrite addnn -mul2n expnMn mulnCA mulnA.
by apply; rewrite addnn -mul2n mulnACA mulnn.
Qed.

(** ** The matrix product in any class: sums by trees, products executed again *)

Theorem product_every_class m n k M c ops : attains c M (matrix_product m n k) ops ->
  4 * (m * n * k) ^ 2 <= (traffic ops + M) ^ 2 * M.
Proof.
move=> ok; case: M ok => [|M] ok; last exact: classes_cold ok isT.
case: (posnP (m * n * k)) => [->//|]; rewrite !muln_gt0 => /andP[/andP[m0 n0] k0].
have pin : model.Mul 0 0 0 \in products (matrix_product m n k).
  by apply/allpairsP; exists ((0, 0), 0); split; rewrite ?mem_iota //;
    apply/allpairsP; exists (0, 0); rewrite !mem_iota.
have [lt last] := placeP ok pin; have [/doesP[T [x o]] _] := lastingP last.
have [_ _ /hasP[v vin _] _ _] := op_mul ok lt o.
have := near_size (Free (Input _ (A 0 0))) ok (ltnW lt).
by rewrite leqn0 size_eq0 => /eqP e; rewrite e in vin.
Qed.

(** ** What the classes contain: none of the theorems is vacuous *)

Theorem class_sub (word product : eqType) c c' M (t : task word product) ops :
  (again c -> again c') -> (adds c -> adds c') -> attains c M t ops -> attains c' M t ops.
Proof. exact: attains_sub. Qed.

Theorem once_in_class (word product : eqType) c M (t : task word product) ops : computes M t ops ->
  exists2 ops', attains c M t ops' & traffic ops' = cost ops.
Proof. by case/once_single => ops' ok co; exists ops' => //; apply: class_sub ok. Qed.

Theorem class_possible c pairs d dv M : uniq pairs -> 0 < d -> 3 <= M ->
  exists ops, attains c M (attention_widths pairs d dv) ops.
Proof.
move=> un d_gt0 le3; have [ops /(@once_in_class _ _ c)[ops' ok _]] := attention_each dv un d_gt0 le3.
by exists ops'.
Qed.

(** ** As the pages of the proofs write them *)

Local Open Scope R_scope.

Theorem matrix_product_every_class m n k M c ops : (0 < M)%N ->
  attains c M (matrix_product m n k) ops ->
  INR (traffic ops) >= 2 * INR m * INR n * INR k / sqrt (INR M) - INR M.
Proof. by move=> M_gt0 /product_every_class/(tight_words M_gt0); rewrite !INRM -!Rmult_assoc. Qed.

Theorem attention_trees H N d M ops : 5 / 2 * INR d ^ 2 <= INR M ->
  attains trees M (attention (heads H N) d) ops ->
  INR (traffic ops) >= 4 * INR H * INR N ^ 2 * INR d ^ 2 / INR M.
Proof.
move=> large /(trees_pairs (heads_uniq H N) (five_halves large)); rewrite size_heads mulnA => le.
by apply: quotient large le; lra.
Qed.

Theorem attention_every_class c H N d M ops : 4 * INR d ^ 2 <= INR M ->
  attains c M (attention (heads H N) d) ops ->
  INR (traffic ops) >= 4 * INR H * INR N ^ 2 * INR d ^ 2 / INR M.
Proof.
move=> large ok; have le : (4 * d ^ 2 <= M)%N.
  by apply: leq_INR; rewrite INRM INR2 (_ : INR 4 = 4) //=; lra.
have := every_class_pairs (heads_uniq H N) le ok; rewrite size_heads mulnA => {}le.
by apply: quotient large le; lra.
Qed.
