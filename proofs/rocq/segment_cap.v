(* The cap of one segment and the sum over all segments, over nat: what the
   model needs of the analysis in cap.v.

   segment_cap_widths is Lemma 3, summed over the columns, and Lemma 6 at the
   multipliers of Theorem 2, m1 = 11/100 and m2 = 36/100 with S = M (see
   proofs/constant_tight.md, sections 3 to 6), in words, pairs and products and
   multiplied by 200 (d + dv); for dv other than d it is Lemma B of
   proofs/attention_options.md. Lemma 3 itself is products_in_segment.

   segments_needed_widths is the sum over the segments: n >= W / (c delta^3) with
   delta = (d + dv) / 2, that is n M^2 >= Pi (d + dv)^2.

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

(* Cauchy and Schwarz, one column more: G <= sqrt (Q K) and h <= sqrt (q k). *)
Lemma add_column (G h Q K q k : R) :
  (0 <= G)%R -> (0 <= h)%R -> (0 <= Q)%R -> (0 <= K)%R -> (0 <= q)%R -> (0 <= k)%R ->
  (G ^ 2 <= Q * K)%R -> (h ^ 2 <= q * k)%R -> ((G + h) ^ 2 <= (Q + q) * (K + k))%R.
Proof.
move=> G0 h0 Q0 K0 q0 k0 GQ hq.
suff cross : (2 * (G * h) <= Q * k + q * K)%R by lra.
have Qk : (0 <= Q * k)%R by exact: Rmult_le_pos.
have qK : (0 <= q * K)%R by exact: Rmult_le_pos.
apply: Rsqr_incr_0; rewrite ?Rsqr_pow2; try nra.
have : (G ^ 2 * h ^ 2 <= (Q * K) * (q * k))%R.
  by apply: Rmult_le_compat => //; exact: pow2_ge_0.
have := pow2_ge_0 (Q * k - q * K); nra.
Qed.

(* Lemma 3: the sum G of the columns' widths is between d p and sqrt (q k). *)
Lemma columns_bound (d : nat) (E q k : 'I_d -> nat) (P p : R) :
  (0 <= p)%R -> (p <= P)%R ->
  (forall c, (INR (E c) <= P ^ 2)%R) -> (forall c, E c <= q c * k c) ->
  (forall c, (p ^ 2 <= INR (q c * k c))%R) ->
  exists G, [/\ (INR d * p <= G)%R, (G ^ 2 <= INR (\sum_c q c) * INR (\sum_c k c))%R
    & (INR (\sum_c E c) <= G * (P + p) - INR d * p * P)%R].
Proof.
move=> p0 pP EP Eqk pqk.
have -> : INR d = INR (size (index_enum [finType of 'I_d])).
  by rewrite -[in LHS](size_enum_ord d) enumT.
elim: (index_enum _) => [|c s [G [pG GQ EG]]].
  by exists 0%R; rewrite !big_nil /=; split; lra.
pose h := sqrt (INR (q c * k c)).
have h0 : (0 <= h)%R := sqrt_pos _.
have h2 : (h ^ 2)%R = INR (q c * k c) by apply: pow2_sqrt; exact: pos_INR.
have ph : (p <= h)%R by apply: Rsqr_incr_0 => //; rewrite !Rsqr_pow2 h2.
have Eh : (INR (E c) <= h * (P + p) - p * P)%R.
  by apply: column_bound => //; rewrite h2; exact: INR_leq.
have G0 : (0 <= G)%R by apply: Rle_trans pG; apply: Rmult_le_pos => //; exact: pos_INR.
exists (G + h)%R; rewrite !big_cons !INRD; change (size (c :: s)) with (size s).+1.
rewrite S_INR; split.
- by move: pG ph; move: (INR (size s)) => *; lra.
- rewrite (Rplus_comm G); apply: add_column => //; try exact: pos_INR.
  by rewrite h2 INRM; exact: Rle_refl.
- by move: EG Eh; move: (INR (E c)) (INR (size s)) (INR _) => *; lra.
Qed.

(* Lemma 3 as printed: n = P^2 pairs, C = p^2 of them complete. *)
Theorem products_in_segment (d : nat) (E q k : 'I_d -> nat) (I J C n : nat) :
  C <= n -> (forall c, E c <= n) -> (forall c, E c <= q c * k c) ->
  (forall c, I <= q c) -> (forall c, J <= k c) -> C <= I * J ->
  let g := sqrt (INR (\sum_c q c) * INR (\sum_c k c)) in
  let p := sqrt (INR C) in let P := sqrt (INR n) in
  [/\ (INR (\sum_c E c) <= INR d * P ^ 2)%R,
      (INR (\sum_c E c) <= g * (P + p) - INR d * p * P)%R & (INR d * p <= g)%R].
Proof.
move=> Cn En Eqk Iq Jk CIJ g p P.
have p0 : (0 <= p)%R := sqrt_pos _.
have pP : (p <= P)%R by apply: sqrt_le_1_alt; exact: INR_leq.
have p2 : (p ^ 2)%R = INR C by rewrite pow2_sqrt //; exact: pos_INR.
have P2 : (P ^ 2)%R = INR n by rewrite pow2_sqrt //; exact: pos_INR.
have [G [pG GQ EG]] : exists G, [/\ (INR d * p <= G)%R,
    (G ^ 2 <= INR (\sum_c q c) * INR (\sum_c k c))%R
    & (INR (\sum_c E c) <= G * (P + p) - INR d * p * P)%R].
  apply: columns_bound => // c; first by rewrite P2; exact: INR_leq.
  rewrite p2; apply: INR_leq; apply: leq_trans CIJ _; exact: leq_mul.
have G0 : (0 <= G)%R by apply: Rle_trans pG; apply: Rmult_le_pos => //; exact: pos_INR.
have Gg : (G <= g)%R by rewrite -(sqrt_pow2 G) //; exact: sqrt_le_1_alt.
split; last exact: Rle_trans Gg.
- rewrite P2 -INRM; apply: INR_leq.
  by rewrite -[d in d * n]card_ord -sum_nat_const; apply: leq_sum.
- have : (G * (P + p) <= g * (P + p))%R by apply: Rmult_le_compat_r; lra.
  lra.
Qed.

(* What the caps use of it: the mean of q and k in place of g. *)
Lemma root_le_mean m n : (sqrt (INR m * INR n) <= (INR m + INR n) / 2)%R.
Proof.
have m0 := pos_INR m; have n0 := pos_INR n.
rewrite -(sqrt_pow2 ((INR m + INR n) / 2)); last by lra.
by apply: sqrt_le_1_alt; have := pow2_ge_0 (INR m - INR n); lra.
Qed.

Lemma products_bound (d : nat) (E q k : 'I_d -> nat) (I J C n : nat) :
  C <= n -> (forall c, E c <= n) -> (forall c, E c <= q c * k c) ->
  (forall c, I <= q c) -> (forall c, J <= k c) -> C <= I * J ->
  let G := ((INR (\sum_c q c) + INR (\sum_c k c)) / 2)%R in
  let p := sqrt (INR C) in let P := sqrt (INR n) in
  [/\ (INR (\sum_c E c) <= INR d * P ^ 2)%R,
      (INR (\sum_c E c) <= G * (P + p) - INR d * p * P)%R & (INR d * p <= G)%R].
Proof.
move=> Cn En Eqk Iq Jk CIJ G p P.
have [E1 E2 E3] := products_in_segment Cn En Eqk Iq Jk CIJ.
have mean := root_le_mean (\sum_c q c) (\sum_c k c).
split=> //; last exact: Rle_trans mean.
apply: Rle_trans E2 _; rewrite /G /p /P.
have : (0 <= sqrt (INR n) + sqrt (INR C))%R by apply: Rplus_le_le_0_compat; exact: sqrt_pos.
by move=> /(Rmult_le_compat_r _ _ _)/(_ mean); lra.
Qed.

(* One segment. c is a column of Q and K, l one of V and O. *)
Theorem segment_cap_widths (d dv M : nat) (E q k : 'I_d -> nat) (F o v : 'I_dv -> nat)
    (I J C a y : nat) :
  0 < d + dv -> 5 * (d + dv) ^ 2 <= 8 * M ->
  (forall c, E c <= C + a + y) -> (forall c, E c <= q c * k c) ->
  (forall c, I <= q c) -> (forall c, J <= k c) ->
  (forall l, F l <= C + a + y) -> (forall l, F l <= o l * v l) ->
  (forall l, I <= o l) -> (forall l, J <= v l) ->
  C <= I * J -> y <= M ->
  \sum_c q c + \sum_c k c + \sum_l v l + \sum_l o l + a <= 2 * M ->
  200 * (d + dv) * (\sum_c E c + \sum_l F l) + 36 * (d + dv) ^ 2 * a
    <= 189 * M ^ 2 + 11 * (d + dv) ^ 2 * (y + C) + 36 * (d + dv) ^ 2 * y.
Proof.
move=> d0 dM En Eqk Iq Jk Fn Fov Io Jv CIJ yM words.
set P := sqrt (INR (C + a + y)); set p := sqrt (INR C).
have p2 : (p ^ 2)%R = INR C by rewrite pow2_sqrt //; exact: pos_INR.
have P2 : (P ^ 2)%R = INR (C + a + y) by rewrite pow2_sqrt //; exact: pos_INR.
have p0 : (0 <= p)%R := sqrt_pos _.
have P0 : (0 <= P)%R := sqrt_pos _.
have Cn : C <= C + a + y by rewrite -addnA leq_addr.
have pP : (p <= P)%R by apply: sqrt_le_1_alt; exact: INR_leq.
have [E1 E2 E3] := products_bound Cn En Eqk Iq Jk CIJ.
have [F1 F2 F3] := products_bound Cn Fn Fov Io Jv CIJ.
move/INR_leq: words; rewrite !(INRD, INRM) => words.
move/INR_leq: dM; rewrite !(INRD, INRM, INR2) => dM.
have c200 : INR 200 = 200%R by rewrite INR_IZR_INZ.
have c189 : INR 189 = 189%R by rewrite INR_IZR_INZ.
have c36 : INR 36 = 36%R by rewrite INR_IZR_INZ.
have c11 : INR 11 = 11%R by rewrite INR_IZR_INZ.
have c8 : INR 8 = 8%R by rewrite INR_IZR_INZ.
have c5 : INR 5 = 5%R by rewrite INR_IZR_INZ.
have c2 : INR 2 = 2%R by rewrite INR_IZR_INZ.
have dR : (0 < (INR d + INR dv) / 2)%R.
  by have : (0 < INR (d + dv))%R by [apply: lt_0_INR; apply/ltP]; rewrite INRD; lra.
have aR := pos_INR a; have yR := pos_INR y.
have yMR := INR_leq yM.
rewrite -/p -/P in E1 E2 E3 F1 F2 F3.
rewrite c2 in words; rewrite c5 c8 in dM.
have := @cap_four_words ((INR d + INR dv) / 2) (INR M) (INR (\sum_c E c) + INR (\sum_l F l))
  ((INR (\sum_c q c) + INR (\sum_c k c) + INR (\sum_l o l) + INR (\sum_l v l)) / 4)
  P p (INR a) (INR y).
have PE : (P ^ 2 = p ^ 2 + INR a + INR y)%R by rewrite P2 p2 !INRD.
move=> /(_ dR ltac:(lra) (conj p0 pP) aR (conj yR yMR) PE ltac:(lra) ltac:(lra) ltac:(lra)).
move=> /(_ ltac:(lra)); rewrite p2 => cap.
apply: leq_INR; rewrite !(INRD, INRM, INR2) c200 c189 c36 c11; lra.
Qed.

Corollary segment_cap (d M : nat) (E q k F o v : 'I_d -> nat) (I J C a y : nat) :
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
have large : 5 * (d + d) ^ 2 <= 8 * M.
  by rewrite addnn -mul2n expnMn mulnCA (_ : 8 = 2 ^ 2 * 2) // -mulnA leq_pmul2l.
have := segment_cap_widths _ large En Eqk Iq Jk Fn Fov Io Jv CIJ yM words.
by rewrite addn_gt0 d0 addnn -mul2n expnMn !mulnA => /(_ isT).
Qed.

Lemma sum_caps n (A B D K : nat) (e f g a y : 'I_n -> nat) :
  (forall t, A * (e t + f t) + B * a t <= K + D * g t + B * y t) ->
  A * (\sum_t e t + \sum_t f t) + B * (\sum_t a t)
    <= n * K + D * (\sum_t g t) + B * (\sum_t y t).
Proof.
move=> cap; rewrite -[n in n * K]card_ord -sum_nat_const -big_split !big_distrr /= -!big_split.
by apply: leq_sum => t _; exact: cap.
Qed.

(* All segments: Lemma 4 summed with the cap. Pi is the number of pairs, D = d + dv. *)
Theorem segments_needed_widths (d dv M n Pi : nat) (E F a y C : 'I_n -> nat) :
  let D := d + dv in
  (forall t, 200 * D * (E t + F t) + 36 * D ^ 2 * a t
      <= 189 * M ^ 2 + 11 * D ^ 2 * (y t + C t) + 36 * D ^ 2 * y t) ->
  Pi * d <= \sum_t E t -> Pi * dv <= \sum_t F t ->
  \sum_t (y t + C t) <= Pi -> \sum_t y t <= \sum_t a t ->
  Pi * D ^ 2 <= n * M ^ 2.
Proof.
move=> D cap EP FP yCP ya.
have sum := sum_caps cap.
have low : 200 * D * (Pi * D) <= 200 * D * (\sum_t E t + \sum_t F t).
  by rewrite leq_mul2l [Pi * D]mulnDr leq_add ?orbT.
have high : 11 * D ^ 2 * (\sum_t (y t + C t)) <= 11 * D ^ 2 * Pi.
  by rewrite leq_mul2l yCP orbT.
have next : 36 * D ^ 2 * (\sum_t y t) <= 36 * D ^ 2 * (\sum_t a t).
  by rewrite leq_mul2l ya orbT.
rewrite -(leq_pmul2l (isT : 0 < 189)) -(leq_add2r (11 * D ^ 2 * Pi + 36 * D ^ 2 * (\sum_t a t))).
have -> : 189 * (Pi * D ^ 2) + (11 * D ^ 2 * Pi + 36 * D ^ 2 * (\sum_t a t))
    = 200 * D * (Pi * D) + 36 * D ^ 2 * (\sum_t a t).
  rewrite addnA -[11 * _ * _]mulnA [D ^ 2 * Pi]mulnC -mulnDl; congr (_ + _).
  by rewrite -mulnA [D * _]mulnCA mulnn.
apply: leq_trans (leq_add low (leqnn _)) _; apply: leq_trans sum _.
rewrite -addnA mulnCA; apply: leq_add => //; exact: leq_add.
Qed.

Corollary segments_needed (d M n Pi : nat) (E F a y C : 'I_n -> nat) :
  (forall t, 400 * d * (E t + F t) + 144 * d ^ 2 * a t
      <= 189 * M ^ 2 + 44 * d ^ 2 * (y t + C t) + 144 * d ^ 2 * y t) ->
  Pi * d <= \sum_t E t -> Pi * d <= \sum_t F t ->
  \sum_t (y t + C t) <= Pi -> \sum_t y t <= \sum_t a t ->
  4 * Pi * d ^ 2 <= n * M ^ 2.
Proof.
move=> cap; have := @segments_needed_widths d d M n Pi E F a y C.
rewrite /= addnn -mul2n expnMn !mulnA -[Pi * 2 * 2]mulnA [Pi * (2 * 2)]mulnC; apply=> t.
by have := cap t; rewrite !mulnA.
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
have [E1 E2 E3] := products_bound Cn En Eqk Iq Jk CIJ.
have none (f : 'I_d -> nat) c : 0 <= f c by [].
have [F1 F2 _] := products_bound (leq0n _) Fn Fov (none o) (none v) (leq0n (0 * 0)).
rewrite (sqrt_0 : sqrt (INR 0) = 0%R) in F2.
move/INR_leq: words; rewrite !(INRD, INRM) => words.
move/INR_leq: dM; rewrite !(INRD, INRM, INR2) => dM.
have c100 : INR 100 = 100%R by rewrite INR_IZR_INZ.
have c80 : INR 80 = 80%R by rewrite INR_IZR_INZ.
have c25 : INR 25 = 25%R by rewrite INR_IZR_INZ.
have c9 : INR 9 = 9%R by rewrite INR_IZR_INZ.
have c2 : INR 2 = 2%R by rewrite INR_IZR_INZ.
have dR : (0 < INR d)%R by apply: lt_0_INR; apply/ltP.
have aR := pos_INR a; have yR := pos_INR y.
have oR := pos_INR (\sum_l o l); have vR := pos_INR (\sum_l v l).
have yMR := INR_leq yM.
rewrite -/p -/P in E1 E2 E3 F1 F2.
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
