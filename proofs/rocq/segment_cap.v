(* The cap of one segment and the sum over all segments, over nat: what the
   model needs of the analysis in cap.v.

   segment_cap is Lemma 3, summed over the columns, and Lemma 6 at the
   multipliers of Theorem 2, m1 = 11/100 and m2 = 36/100 with S = M (see
   proofs/constant_tight.md, sections 3 to 6), in words, pairs and products and
   multiplied by 400 d. Lemma 3 is used with the mean (q_c + k_c) / 2 in place
   of sqrt (q_c k_c), which is enough, since Lemma 6 replaces sqrt (q k) by the
   mean anyway.

   segments_needed is the sum over the segments: n >= W / (c d^3), that is
   n M^2 >= 4 Pi d^2.

   segment_cap_recompute and segments_needed_recompute are the same for the
   class recompute: Lemma 7 at a0 = 0, m1 = 8/5, m2 = 1/25, multiplied by 50 d,
   with what Lemma 5 gives. *)

From Coq Require Import Reals Lra Psatz.
Set Warnings "-notation-overridden".
From mathcomp Require Import all_ssreflect.
From iosim Require Import cap cap_recompute.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* From nat to the reals. *)
Lemma INRD m n : INR (m + n) = (INR m + INR n)%R.
Proof. by rewrite -plusE plus_INR. Qed.

Lemma INRM m n : INR (m * n) = (INR m * INR n)%R.
Proof. by rewrite -multE mult_INR. Qed.

Lemma INR2 m : INR (m ^ 2) = (INR m ^ 2)%R.
Proof. by rewrite -mulnn INRM /=; ring. Qed.

Lemma INR_leq m n : m <= n -> (INR m <= INR n)%R.
Proof. by move=> /leP; exact: le_INR. Qed.

Lemma leq_INR m n : (INR m <= INR n)%R -> m <= n.
Proof. by move=> mn; apply/leP; exact: INR_le. Qed.

(* Lemma 3 for one column: h is the column's width. *)
Lemma column_bound (e P p h : R) :
  (0 <= p)%R -> (p <= P)%R -> (p <= h)%R -> (e <= P ^ 2)%R -> (e <= h ^ 2)%R ->
  (e <= h * (P + p) - p * P)%R.
Proof.
move=> p0 pP ph eP eh; case: (Rle_lt_dec h P) => hP.
  by have : (0 <= (P - h) * (h - p))%R by [apply: Rmult_le_pos; lra]; lra.
have : (0 <= (h - P) * (P + p))%R by apply: Rmult_le_pos; lra.
lra.
Qed.

(* A linear bound, column by column, summed. *)
Lemma sum_columns (d : nat) (f g : 'I_d -> nat) (A B : R) :
  (forall c, INR (f c) <= A * INR (g c) - B)%R ->
  (INR (\sum_c f c) <= A * INR (\sum_c g c) - INR d * B)%R.
Proof.
move=> fg; have -> : INR d = INR (size (index_enum [finType of 'I_d])).
  by rewrite -[in LHS](size_enum_ord d) enumT.
elim: (index_enum _) => [|c s IH]; first by rewrite !big_nil /=; lra.
rewrite !big_cons !INRD; change (size (c :: s)) with (size s).+1.
rewrite S_INR; move: IH (fg c).
by move: (INR (f c)) (INR (g c)) (INR (size s)) (INR _) (INR _) => *; lra.
Qed.

(* Lemma 3 for one kind of products, with the mean width. *)
Lemma products_bound (d : nat) (E q k : 'I_d -> nat) (I J C n : nat) (P p : R) :
  (0 <= p)%R -> (0 <= P)%R -> (p ^ 2)%R = INR C -> (P ^ 2)%R = INR n -> C <= n ->
  (forall c, E c <= n) -> (forall c, E c <= q c * k c) ->
  (forall c, I <= q c) -> (forall c, J <= k c) -> C <= I * J ->
  let G := (INR (\sum_c q c + \sum_c k c) / 2)%R in
  [/\ (INR (\sum_c E c) <= INR d * P ^ 2)%R,
      (INR (\sum_c E c) <= G * (P + p) - INR d * p * P)%R & (INR d * p <= G)%R].
Proof.
move=> p0 P0 pC Pn Cn En Eqk Iq Jk CIJ G; pose s := \sum_c (q c + k c).
have {G}-> : G = (INR s / 2)%R by rewrite /G /s big_split.
have pP : (p <= P)%R.
  by apply: Rsqr_incr_0 => //; rewrite !Rsqr_pow2 pC Pn; exact: INR_leq.
have mean c : (INR (q c * k c) <= (INR (q c + k c) / 2) ^ 2)%R.
  by rewrite INRM INRD; have := pow2_ge_0 (INR (q c) - INR (k c)); lra.
have width c : (p <= INR (q c + k c) / 2)%R.
  have h0 : (0 <= INR (q c + k c) / 2)%R by have := pos_INR (q c + k c); lra.
  apply: Rsqr_incr_0 => //; rewrite !Rsqr_pow2 pC.
  apply: Rle_trans (mean c); apply: INR_leq; apply: leq_trans CIJ _.
  exact: leq_mul.
split.
- rewrite Pn -INRM; apply: INR_leq.
  by rewrite -[d in d * n]card_ord -sum_nat_const; apply: leq_sum.
- have := @sum_columns d E (fun c => q c + k c) ((P + p) / 2) (p * P).
  rewrite -/s => h; suff : (INR (\sum_c E c) <= (P + p) / 2 * INR s - INR d * (p * P))%R.
    by lra.
  apply: h => c; suff : (INR (E c) <= INR (q c + k c) / 2 * (P + p) - p * P)%R by lra.
  apply: column_bound => //; first by rewrite Pn; exact: INR_leq.
  by apply: Rle_trans (mean c); exact: INR_leq.
- have := @sum_columns d (fun=> 0) (fun c => q c + k c) (1 / 2) p.
  rewrite -/s big1_eq /= => h.
  by have := h (fun c => _); move=> /(_ ltac:(move=> c; have := width c; lra)); lra.
Qed.

(* One segment. c is a column of Q and K, l one of V and O. *)
Theorem segment_cap (d M : nat) (E q k F o v : 'I_d -> nat) (I J C a y : nat) :
  0 < d -> 5 * d ^ 2 <= 2 * M ->
  (forall c, E c <= C + a + y) -> (forall c, E c <= q c * k c) ->
  (forall c, I <= q c) -> (forall c, J <= k c) ->
  (forall l, F l <= C + a + y) -> (forall l, F l <= o l * v l) ->
  (forall l, I <= o l) -> (forall l, J <= v l) ->
  C <= I * J -> y <= M ->
  \sum_c q c + \sum_c k c + \sum_l v l + \sum_l o l + a <= 2 * M ->
  400 * d * (\sum_c E c + \sum_l F l) + 144 * d ^ 2 * a
    <= 189 * M ^ 2 + 44 * d ^ 2 * (y + C) + 144 * d ^ 2 * y.
Proof.
move=> d0 dM En Eqk Iq Jk Fn Fov Io Jv CIJ yM words.
set P := sqrt (INR (C + a + y)); set p := sqrt (INR C).
have p2 : (p ^ 2)%R = INR C by rewrite pow2_sqrt //; exact: pos_INR.
have P2 : (P ^ 2)%R = INR (C + a + y) by rewrite pow2_sqrt //; exact: pos_INR.
have p0 : (0 <= p)%R := sqrt_pos _.
have P0 : (0 <= P)%R := sqrt_pos _.
have Cn : C <= C + a + y by rewrite -addnA leq_addr.
have pP : (p <= P)%R by apply: sqrt_le_1_alt; exact: INR_leq.
have [E1 E2 E3] := products_bound p0 P0 p2 P2 Cn En Eqk Iq Jk CIJ.
have [F1 F2 F3] := products_bound p0 P0 p2 P2 Cn Fn Fov Io Jv CIJ.
move/INR_leq: words; rewrite !(INRD, INRM) => words.
move/INR_leq: dM; rewrite !(INRD, INRM, INR2) => dM.
have c400 : INR 400 = 400%R by rewrite INR_IZR_INZ.
have c189 : INR 189 = 189%R by rewrite INR_IZR_INZ.
have c144 : INR 144 = 144%R by rewrite INR_IZR_INZ.
have c44 : INR 44 = 44%R by rewrite INR_IZR_INZ.
have c5 : INR 5 = 5%R by rewrite INR_IZR_INZ.
have c2 : INR 2 = 2%R by rewrite INR_IZR_INZ.
have dR : (0 < INR d)%R by apply: lt_0_INR; apply/ltP.
have aR := pos_INR a; have yR := pos_INR y.
have yMR := INR_leq yM.
move: E2 E3 F2 F3; rewrite !INRD => E2 E3 F2 F3.
rewrite c5 c2 in words dM.
have := @cap_four_words (INR d) (INR M) (INR (\sum_c E c) + INR (\sum_l F l))
  ((INR (\sum_c q c) + INR (\sum_c k c) + INR (\sum_l o l) + INR (\sum_l v l)) / 4)
  P p (INR a) (INR y).
have PE : (P ^ 2 = p ^ 2 + INR a + INR y)%R by rewrite P2 p2 !INRD.
move=> /(_ dR ltac:(lra) (conj p0 pP) aR (conj yR yMR) PE ltac:(lra) ltac:(lra) ltac:(lra)).
move=> /(_ ltac:(lra)); rewrite p2 => cap.
apply: leq_INR; rewrite !(INRD, INRM, INR2) c400 c189 c144 c44; lra.
Qed.

Lemma sum_caps n (A B D K : nat) (e f g a y : 'I_n -> nat) :
  (forall t, A * (e t + f t) + B * a t <= K + D * g t + B * y t) ->
  A * (\sum_t e t + \sum_t f t) + B * (\sum_t a t)
    <= n * K + D * (\sum_t g t) + B * (\sum_t y t).
Proof.
move=> cap; rewrite -[n in n * K]card_ord -sum_nat_const -big_split !big_distrr /= -!big_split.
by apply: leq_sum => t _; exact: cap.
Qed.

(* All segments: Lemma 4 summed with the cap. Pi is the number of pairs. *)
Theorem segments_needed (d M n Pi : nat) (E F a y C : 'I_n -> nat) :
  (forall t, 400 * d * (E t + F t) + 144 * d ^ 2 * a t
      <= 189 * M ^ 2 + 44 * d ^ 2 * (y t + C t) + 144 * d ^ 2 * y t) ->
  Pi * d <= \sum_t E t -> Pi * d <= \sum_t F t ->
  \sum_t (y t + C t) <= Pi -> \sum_t y t <= \sum_t a t ->
  4 * Pi * d ^ 2 <= n * M ^ 2.
Proof.
move=> cap EP FP yCP ya.
have sum := sum_caps cap.
have low : 400 * d * (Pi * d + Pi * d) <= 400 * d * (\sum_t E t + \sum_t F t).
  by rewrite leq_mul2l leq_add ?orbT.
have high : 44 * d ^ 2 * (\sum_t (y t + C t)) <= 44 * d ^ 2 * Pi.
  by rewrite leq_mul2l yCP orbT.
have next : 144 * d ^ 2 * (\sum_t y t) <= 144 * d ^ 2 * (\sum_t a t).
  by rewrite leq_mul2l ya orbT.
have : 189 * (4 * Pi * d ^ 2) + (44 * d ^ 2 * Pi + 144 * d ^ 2 * (\sum_t a t))
    <= 189 * (n * M ^ 2) + (44 * d ^ 2 * Pi + 144 * d ^ 2 * (\sum_t a t)).
  have -> : 189 * (4 * Pi * d ^ 2) + (44 * d ^ 2 * Pi + 144 * d ^ 2 * (\sum_t a t))
      = 400 * d * (Pi * d + Pi * d) + 144 * d ^ 2 * (\sum_t a t).
    rewrite addnA -[44 * _ * _]mulnA [d ^ 2 * Pi]mulnC -[4 * Pi * _]mulnA [189 * _]mulnA.
    by rewrite -mulnDl addnn -mul2n mulnACA [d * _]mulnCA mulnn.
  apply: leq_trans (leq_add low (leqnn _)) _; apply: leq_trans sum _.
  rewrite -addnA mulnCA; apply: leq_add => //; exact: leq_add.
by rewrite leq_add2r leq_pmul2l.
Qed.

(* One segment of the class recompute: complete pairs have whole rows of Q and
   K only. *)
Theorem segment_cap_recompute (d M : nat) (E q k F o v : 'I_d -> nat) (I J C a y : nat) :
  0 < d -> 9 * d ^ 2 <= 2 * M ->
  (forall c, E c <= C + a + y) -> (forall c, E c <= q c * k c) ->
  (forall c, I <= q c) -> (forall c, J <= k c) ->
  (forall l, F l <= C + a + y) -> (forall l, F l <= o l * v l) ->
  C <= I * J -> y <= M ->
  \sum_c q c + \sum_c k c + \sum_l v l + \sum_l o l + a <= 2 * M ->
  80 * d * (\sum_c E c) + 100 * d * (\sum_l F l) + 2 * d ^ 2 * a
    <= 25 * M ^ 2 + 80 * d ^ 2 * (y + C) + 2 * d ^ 2 * y.
Proof.
move=> d0 dM En Eqk Iq Jk Fn Fov CIJ yM words.
set P := sqrt (INR (C + a + y)); set p := sqrt (INR C).
have p2 : (p ^ 2)%R = INR C by rewrite pow2_sqrt //; exact: pos_INR.
have P2 : (P ^ 2)%R = INR (C + a + y) by rewrite pow2_sqrt //; exact: pos_INR.
have p0 : (0 <= p)%R := sqrt_pos _.
have P0 : (0 <= P)%R := sqrt_pos _.
have Cn : C <= C + a + y by rewrite -addnA leq_addr.
have pP : (p <= P)%R by apply: sqrt_le_1_alt; exact: INR_leq.
have [E1 E2 E3] := products_bound p0 P0 p2 P2 Cn En Eqk Iq Jk CIJ.
have zero : (0 ^ 2)%R = INR 0 by rewrite /=; ring.
have none (f : 'I_d -> nat) c : 0 <= f c by [].
have [F1 F2 F3] := products_bound (Rle_refl 0) P0 zero P2 (leq0n _) Fn Fov
  (none o) (none v) (leq0n (0 * 0)).
move/INR_leq: words; rewrite !(INRD, INRM) => words.
move/INR_leq: dM; rewrite !(INRD, INRM, INR2) => dM.
have c100 : INR 100 = 100%R by rewrite INR_IZR_INZ.
have c80 : INR 80 = 80%R by rewrite INR_IZR_INZ.
have c25 : INR 25 = 25%R by rewrite INR_IZR_INZ.
have c9 : INR 9 = 9%R by rewrite INR_IZR_INZ.
have c2 : INR 2 = 2%R by rewrite INR_IZR_INZ.
have dR : (0 < INR d)%R by apply: lt_0_INR; apply/ltP.
have aR := pos_INR a; have yR := pos_INR y.
have yMR := INR_leq yM.
move: E2 E3 F2 F3; rewrite !INRD => E2 E3 F2 F3.
rewrite c9 c2 in words dM.
have := @cap_recompute_words (INR d) (INR M) (INR (\sum_c E c)) (INR (\sum_l F l)) P p
  (INR a) (INR y) ((INR (\sum_c q c) + INR (\sum_c k c)) / 2)
  ((INR (\sum_l o l) + INR (\sum_l v l)) / 2).
have PE : (P ^ 2 = p ^ 2 + INR a + INR y)%R by rewrite P2 p2 !INRD.
move=> /(_ dR ltac:(lra) (conj p0 pP) aR (conj yR yMR) PE E3 ltac:(lra) ltac:(lra)).
move=> /(_ E1 E2 F1 ltac:(lra)); rewrite p2 => cap.
apply: leq_INR; rewrite !(INRD, INRM, INR2) c100 c80 c25 c2; lra.
Qed.

(* All segments of the class recompute: Lemma 5 summed with the cap. *)
Theorem segments_needed_recompute (d M n Pi : nat) (E F a y C : 'I_n -> nat) :
  (forall t, 80 * d * E t + 100 * d * F t + 2 * d ^ 2 * a t
      <= 25 * M ^ 2 + 80 * d ^ 2 * (y t + C t) + 2 * d ^ 2 * y t) ->
  Pi * d <= \sum_t F t -> d * (\sum_t (y t + C t)) <= \sum_t E t ->
  \sum_t y t <= \sum_t a t ->
  4 * Pi * d ^ 2 <= n * M ^ 2.
Proof.
move=> cap FP Ey ya.
have sum : \sum_t (80 * d * E t + 100 * d * F t + 2 * d ^ 2 * a t)
    <= \sum_t (25 * M ^ 2 + 80 * d ^ 2 * (y t + C t) + 2 * d ^ 2 * y t).
  by apply: leq_sum => t _; exact: cap.
have dist (A : nat) (f : 'I_n -> nat) : \sum_t A * f t = A * (\sum_t f t).
  by rewrite big_distrr.
have both (f g : 'I_n -> nat) : \sum_t (f t + g t) = \sum_t f t + \sum_t g t.
  by rewrite big_split.
move: sum; rewrite ![in X in X -> _](both, dist) sum_nat_const card_ord -both.
have low : 100 * d * (Pi * d) <= 100 * d * (\sum_t F t) by rewrite leq_mul2l FP orbT.
have high : 80 * d ^ 2 * (\sum_t (y t + C t)) <= 80 * d * (\sum_t E t).
  by rewrite -mulnn mulnA -[_ * d * _]mulnA leq_mul2l Ey orbT.
have next : 2 * d ^ 2 * (\sum_t y t) <= 2 * d ^ 2 * (\sum_t a t).
  by rewrite leq_mul2l ya orbT.
move=> sum; have : 25 * (4 * Pi * d ^ 2) <= 25 * (n * M ^ 2); last by rewrite leq_pmul2l.
have -> : 25 * (4 * Pi * d ^ 2) = 100 * d * (Pi * d).
  by rewrite -[4 * Pi * _]mulnA mulnA -[RHS]mulnA [d * _]mulnCA mulnn.
have rest e f g r h k : e + f + g <= r + h + k -> h <= e -> k <= g -> f <= r.
  by move=> /leP + /leP + /leP; rewrite -!plusE => *; apply/leP; lia.
have nM : M * (n * M) = n * M ^ 2 by rewrite mulnCA mulnn.
by apply: leq_trans low _; rewrite nM in sum; exact: rest sum high next.
Qed.
