(* The largest charged work of a segment: Lemma 6 of
   proofs/constant_tight.md, section 5, and the inequalities behind Theorem 2,
   section 6, for the class once.

   Section Cap is Lemma 6 for all x, T and multipliers with 0 <= m1 <= 2 and
   0 <= m2: the left side of (1) is at most K as soon as the five faces of the
   table are. Section Four says that at T = 2x, m1 = 11/100, m2 = 36/100 and
   x >= 5/2 every face is at most "inside", (2 - m1) x^2 / 4. All sizes are
   scaled: words and pairs by d^2, products by d^3. *)

From Coq Require Import Reals Lra Psatz List.
From Coq Require Import ssreflect ssrbool.
From iosim Require Import convex.
Import ListNotations.

Local Open Scope R_scope.

(* The faces of Lemma 6; A = T + x. Mixed is written in u and w with u w = x. *)
Definition inside m1 T := (2 - m1) * T ^ 2 / 16.
Definition paid m2 T P := (T - P ^ 2) * P / 2 + m2 * P ^ 2.
Definition free m1 m2 T P := T * P / 2 - (m1 + m2) * P ^ 2.
Definition full m1 m2 x T P :=
  (T + x - P ^ 2) * P / 2 + m2 * P ^ 2 - (m1 + 2 * m2) * x.
Definition mixed m1 m2 x T u w :=
  T * u / 2 - (u ^ 2 - w ^ 2) / 2 - m1 * (x + (u - w) ^ 2 / 4) - m2 * x.

(* The charged work of Lemma 6. *)
Definition charged m1 m2 g P p a y :=
  2 * (g * (P + p) - p * P) - m1 * (y + p ^ 2) + m2 * (a - y).

Section Cap.

Variables (x T m1 m2 K : R).
Hypotheses (x0 : 0 < x) (T0 : 0 < T) (m1_ge0 : 0 <= m1) (m1_le2 : m1 <= 2) (m2_ge0 : 0 <= m2).

Hypothesis insideK : inside m1 T <= K.
Hypothesis paidK : forall P, 0 <= P -> P ^ 2 <= T <= P ^ 2 + 4 * P -> paid m2 T P <= K.
Hypothesis freeK : forall P, 0 <= P -> T / 4 <= P -> P ^ 2 <= x -> free m1 m2 T P <= K.
Hypothesis fullK : forall P, 0 <= P -> x <= P ^ 2 -> P ^ 2 <= T + x <= P ^ 2 + 4 * P ->
  full m1 m2 x T P <= K.
Hypothesis mixedK : forall u w, 0 <= w <= u -> u * w = x ->
  (u - w) / 2 <= T / 4 <= (u + w) / 2 -> mixed m1 m2 x T u w <= K.

Local Notation ell := (charged m1 m2).

(* The corner P = sqrt (4 + T) - 2 of the face paid. *)
Lemma paid_corner P : 0 <= P -> P ^ 2 + 4 * P = T -> (2 + m2) * P ^ 2 <= K.
Proof. by move=> P0 PT; have := paidK P P0 ltac:(nra); rewrite /paid -PT; lra. Qed.

Lemma paid_right : m2 * T <= K.
Proof.
have := paidK (sqrt T) (sqrt_pos T); rewrite /paid.
have -> : sqrt T ^ 2 = T by rewrite pow2_sqrt; lra.
by have := sqrt_pos T => s0 /(_ ltac:(lra)); lra.
Qed.

(* (ii) *)
Lemma cap_low_width P p a y :
  0 <= p -> 0 <= a -> 0 <= y -> 4 * p + a = T -> ell p P p a y <= K.
Proof.
move=> p0 a0 y0 pT.
have line : (2 - m1) * p ^ 2 + (- 4 * m2) * p + m2 * T <= K.
  have left_end := paid_right; move: insideK; rewrite /inside => right_end.
  by apply: (convex_between (2 - m1) (- 4 * m2) (m2 * T) K 0 (T / 4)); lra.
by rewrite /charged; nra.
Qed.

(* (iii); also what is left where the width is above P: a is at most T - 4 P. *)
Lemma cap_high_width P a :
  0 <= P -> 0 <= a <= P ^ 2 -> 4 * P + a <= T -> (2 - m1) * P ^ 2 + (m1 + m2) * a <= K.
Proof.
move=> P0 [a0 aP] aT.
set P1 := sqrt (4 + T) - 2.
have s2 : sqrt (4 + T) ^ 2 = 4 + T by rewrite pow2_sqrt; lra.
have s_ge2 : 2 <= sqrt (4 + T).
  by have := sqrt_le_1 (2 ^ 2) (4 + T); rewrite sqrt_pow2; lra.
have P1_ge0 : 0 <= P1 by rewrite /P1; lra.
have P1T : P1 ^ 2 + 4 * P1 = T by rewrite /P1; nra.
have corner := paid_corner P1 P1_ge0 P1T.
case: (Rle_lt_dec P P1) => PP1.
- have : P ^ 2 <= P1 ^ 2 by nra.
  nra.
- have line : (2 - m1) * P ^ 2 + (- 4 * (m1 + m2)) * P + (m1 + m2) * T <= K.
    move: insideK; rewrite /inside => right_end.
    by apply: (convex_between _ _ _ K P1 (T / 4)); nra.
  nra.
Qed.

(* Move along a line to its ends: h is ell on the line, cs the constraints. *)
Ltac to_ends h cs lo hi :=
  apply: (quadratic_at_ends h K cs lo hi);
  [ by move=> ?; unfold h, charged; field | by unfold h, charged; lra | by repeat split; reg
  | lra | by move=> /=; lra | unfold h, cs; cbv beta iota delta [all_ge0 some_0] ].

(* (iv) *)
Lemma cap_no_fresh u w g :
  0 <= w <= u -> g = (T - u * w) / 4 -> (u - w) / 2 <= g <= (u + w) / 2 ->
  ell g ((u + w) / 2) ((u - w) / 2) (u * w) 0 <= K.
Proof.
move=> wu -> {g} gP.
pose h z := ell ((T - u * z) / 4) ((u + z) / 2) ((u - z) / 2) (u * z) 0.
pose cs := [(fun z => (T - u * z) / 4 - (u - z) / 2); (fun z => (u + z) / 2 - (T - u * z) / 4)].
to_ends h cs 0 u => z [z0 zu] [lo [hi _]]; case=> [[e|[e|//]]|[e|e]].
- have -> : (T - u * z) / 4 = (u - z) / 2 by lra.
  by apply: cap_low_width; nra.
- have -> : (T - u * z) / 4 = (u + z) / 2 by lra.
  have := cap_high_width ((u + z) / 2) (u * z).
  by rewrite /charged; nra.
- subst z; have -> : (T - u * 0) / 4 = (u - 0) / 2 by lra.
  by apply: cap_low_width; nra.
- subst z; have := paidK u ltac:(lra) ltac:(nra).
  by rewrite /paid /charged; nra.
Qed.

(* (v) *)
Lemma cap_all_fresh u w g :
  0 <= w <= u -> u * w <= x -> g = T / 4 -> (u - w) / 2 <= g <= (u + w) / 2 ->
  ell g ((u + w) / 2) ((u - w) / 2) 0 (u * w) <= K.
Proof.
move=> wu uwx -> {g} gP.
pose h z := ell (T / 4) ((u + z) / 2) ((u - z) / 2) 0 (u * z).
pose cs := [(fun z => T / 4 - (u - z) / 2); (fun z => (u + z) / 2 - T / 4);
  (fun z => x - u * z)].
to_ends h cs 0 u => z [z0 zu] [lo [hi [zx _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- have -> : T / 4 = (u - z) / 2 by lra.
  by apply: cap_low_width; nra.
- have -> : T / 4 = (u + z) / 2 by lra.
  have := cap_high_width ((u + z) / 2) 0 ltac:(lra) ltac:(nra) ltac:(lra).
  have : 0 <= m2 * (u * z) by apply: Rmult_le_pos => //; nra.
  by rewrite /charged; lra.
- have := mixedK u z ltac:(lra) ltac:(lra) ltac:(lra).
  by rewrite /mixed /charged; nra.
- subst z; have -> : T / 4 = (u - 0) / 2 by lra.
  by apply: cap_low_width; nra.
- subst z; have := freeK u ltac:(lra) ltac:(lra) ltac:(nra).
  by rewrite /free /charged; nra.
Qed.

(* (vi) *)
Lemma cap_most_fresh u w g :
  0 <= w <= u -> x <= u * w -> g = (T + x - u * w) / 4 ->
  (u - w) / 2 <= g <= (u + w) / 2 ->
  ell g ((u + w) / 2) ((u - w) / 2) (u * w - x) x <= K.
Proof.
move=> wu uwx -> {g} gP.
pose h z := ell ((T + x - u * z) / 4) ((u + z) / 2) ((u - z) / 2) (u * z - x) x.
pose cs := [(fun z => (T + x - u * z) / 4 - (u - z) / 2);
  (fun z => (u + z) / 2 - (T + x - u * z) / 4); (fun z => u * z - x)].
to_ends h cs 0 u => z [z0 zu] [lo [hi [zx _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- have -> : (T + x - u * z) / 4 = (u - z) / 2 by lra.
  by apply: cap_low_width; nra.
- have -> : (T + x - u * z) / 4 = (u + z) / 2 by lra.
  have := cap_high_width ((u + z) / 2) (u * z - x) ltac:(lra) ltac:(nra) ltac:(lra).
  have : 0 <= m2 * x by apply: Rmult_le_pos; lra.
  by rewrite /charged; lra.
- have := mixedK u z ltac:(lra) ltac:(lra) ltac:(nra).
  by rewrite /mixed /charged; nra.
- by subst z; lra.
- subst z; have := fullK u ltac:(lra) ltac:(nra) ltac:(nra).
  by rewrite /full /charged; nra.
Qed.

(* (i) *)
Lemma cap_along_fresh P p a y g :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y ->
  4 * g + a = T -> p <= g <= P -> ell g P p a y <= K.
Proof.
move=> pP a0 yx PE gT gP.
pose n := P ^ 2 - p ^ 2.
have aE : a = n - y by rewrite /n; lra.
have gE : g = (T - n + y) / 4 by lra.
pose h z := ell ((T - n + z) / 4) P p (n - z) z.
pose cs := [(fun z => n - z); (fun z => (T - n + z) / 4 - p); (fun z => P - (T - n + z) / 4)].
have -> : ell g P p a y = h y by rewrite /h aE gE.
have uw : (P + p) * (P - p) = n by rewrite /n; ring.
have up : (P + p + (P - p)) / 2 = P by field.
have down : (P + p - (P - p)) / 2 = p by field.
to_ends h cs 0 x => z [z0 zx] [zn [lo [hi _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- have -> : z = n by lra.
  have := cap_all_fresh (P + p) (P - p) ((T - n + n) / 4).
  by rewrite uw up down Rminus_eq_0; apply; lra.
- have -> : (T - n + z) / 4 = p by lra.
  by apply: cap_low_width; lra.
- have -> : (T - n + z) / 4 = P by lra.
  have := cap_high_width P (n - z) ltac:(lra) ltac:(nra) ltac:(lra).
  have : 0 <= m2 * z by apply: Rmult_le_pos; lra.
  by rewrite /charged /n; lra.
- subst z; have := cap_no_fresh (P + p) (P - p) ((T - n + 0) / 4).
  by rewrite uw up down Rminus_0_r; apply; lra.
- subst z; have := cap_most_fresh (P + p) (P - p) ((T - n + x) / 4).
  by rewrite uw up down; apply; lra.
Qed.

(* Lemma 6: L is E + F, g the mean width. *)
Lemma cap_once L g P p a y :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y ->
  p <= g -> 4 * g + a <= T ->
  L <= 2 * P ^ 2 -> L <= 2 * (g * (P + p) - p * P) ->
  L - m1 * (y + p ^ 2) + m2 * (a - y) <= K.
Proof.
move=> pP a0 yx PE pg gT LP Lg.
case: (Rle_lt_dec ((T - a) / 4) P) => wide.
- have := cap_along_fresh P p a y ((T - a) / 4).
  rewrite /charged => /(_ ltac:(lra) a0 yx PE ltac:(lra) ltac:(lra)).
  have : g * (P + p) <= (T - a) / 4 * (P + p) by apply: Rmult_le_compat_r; lra.
  by lra.
- have := cap_high_width P a ltac:(lra) ltac:(nra) ltac:(lra).
  have : 0 <= m2 * y by apply: Rmult_le_pos; lra.
  nra.
Qed.

End Cap.

(* The faces at T = 2 x for x >= 5/2: each is at most inside. *)
Section Four.

Let m1 := 11 / 100.
Let m2 := 36 / 100.

Variable x : R.
Hypothesis x_ge : 5 / 2 <= x.

Lemma inside_four : inside m1 (2 * x) = (2 - m1) * x ^ 2 / 4.
Proof. by rewrite /inside; field. Qed.

(* Quadratics in x: below some P they rise from x = 5/2 on, above it they have
   no real root. *)
Lemma paid_four P : 0 <= P -> paid m2 (2 * x) P <= (2 - m1) * x ^ 2 / 4.
Proof.
move=> P0; rewrite /paid /m1 /m2.
case: (Rle_lt_dec P (9 / 5)) => P9.
- have start : 0 <= 189 / 64 - 5 / 2 * P + P ^ 3 / 2 - 36 / 100 * P ^ 2.
    have : 0 <= (P - 31 / 20) ^ 2 * (P / 2 + 119 / 100).
      by apply: Rmult_le_pos; [exact: pow2_ge_0 | lra].
    by lra.
  have rise : 0 <= (x - 5 / 2) * (189 / 400 * (x + 5 / 2) - P).
    by apply: Rmult_le_pos; lra.
  nra.
- have : 0 <= (x - 200 / 189 * P) ^ 2 by exact: pow2_ge_0.
  have : 0 <= P ^ 2 * (P - 9 / 5) by apply: Rmult_le_pos; nra.
  nra.
Qed.

Lemma free_four P : 0 <= P -> P ^ 2 <= x -> free m1 m2 (2 * x) P <= (2 - m1) * x ^ 2 / 4.
Proof.
move=> P0 Px; rewrite /free /m1 /m2.
have far : 79 / 50 * P <= x.
  by have : 5 / 2 * P ^ 2 <= x ^ 2 by [nra]; nra.
have : 0 <= (x - 79 / 50 * P) * P by apply: Rmult_le_pos; lra.
nra.
Qed.

Lemma full_four P : 0 <= P -> full m1 m2 x (2 * x) P <= (2 - m1) * x ^ 2 / 4.
Proof.
move=> P0; rewrite /full /m1 /m2.
case: (Rle_lt_dec P 2) => P2.
- have start : 0 <= 1609 / 320 - 15 / 4 * P + P ^ 3 / 2 - 36 / 100 * P ^ 2.
    have : 0 <= (P - 46 / 25) ^ 2 * (P / 2 + 37 / 25).
      by apply: Rmult_le_pos; [exact: pow2_ge_0 | lra].
    by lra.
  have rise : 0 <= (x - 5 / 2) * (189 / 400 * (x + 5 / 2) - 3 / 2 * P + 83 / 100).
    by apply: Rmult_le_pos; lra.
  nra.
- have : 0 <= (x - 200 / 189 * (3 / 2 * P - 83 / 100)) ^ 2 by exact: pow2_ge_0.
  have : 0 <= (P - 2) * P ^ 2 by apply: Rmult_le_pos; nra.
  nra.
Qed.

(* u^2 (1 - w) (.5275 - .4725 w) + .415 u w - .4725 w^2 at fixed w. *)
Lemma mixed_four u w :
  0 <= w <= u -> u * w = x -> u - w <= x <= u + w ->
  mixed m1 m2 x (2 * x) u w <= (2 - m1) * x ^ 2 / 4.
Proof.
move=> [w0 wu] ux [low high]; rewrite /mixed /m1 /m2.
have wpos : 0 < w by nra.
set D := u ^ 2 * ((1 - w) * (211 / 400 - 189 / 400 * w)) + 83 / 200 * (u * w)
  - 189 / 400 * w ^ 2.
suff D0 : 0 <= D by move: D0; rewrite /D -ux; nra.
case: (Rle_lt_dec w 1) => w1.
  have : 0 <= u ^ 2 * ((1 - w) * (211 / 400 - 189 / 400 * w)).
    by apply: Rmult_le_pos; [nra | apply: Rmult_le_pos; lra].
  by rewrite /D; nra.
case: (Rle_lt_dec w (211 / 189)) => w2.
  have edge : u * (w - 1) <= w by nra.
  have : u ^ 2 * (w - 1) <= u * w by nra.
  have : 0 <= 211 / 400 - 189 / 400 * w by lra.
  by rewrite /D; nra.
have A0 : 0 <= (1 - w) * (211 / 400 - 189 / 400 * w) by nra.
case: (Rle_lt_dec (w ^ 2) (5 / 2)) => w3.
- have uw : 5 / 2 <= u * w by lra.
  have uw2 : 25 / 4 <= (u * w) ^ 2 by nra.
  have chord : 0 <= (5 / 2 - w ^ 2) * (w ^ 2 - 6 / 5) by apply: Rmult_le_pos; nra.
  have Dw : 0 <= w ^ 2 * D.
    have -> : w ^ 2 * D = (u * w) ^ 2 * ((1 - w) * (211 / 400 - 189 / 400 * w))
        + 83 / 200 * (u * w) * w ^ 2 - 189 / 400 * w ^ 4 by rewrite /D; ring.
    have : 25 / 4 * ((1 - w) * (211 / 400 - 189 / 400 * w))
        <= (u * w) ^ 2 * ((1 - w) * (211 / 400 - 189 / 400 * w)).
      by apply: Rmult_le_compat_r.
    have : 5 / 2 * w ^ 2 <= u * w * w ^ 2 by apply: Rmult_le_compat_r => //; nra.
    have : 0 <= (w - 7 / 5) ^ 2 by exact: pow2_ge_0.
    by nra.
  by apply: (Rmult_le_reg_l (w ^ 2)); nra.
- have w4 : 3 / 2 <= w by nra.
  have A1 : 23 / 400 <= (1 - w) * (211 / 400 - 189 / 400 * w) by nra.
  have u2 : w ^ 2 <= u ^ 2 by nra.
  have : w ^ 2 * (23 / 400) <= u ^ 2 * ((1 - w) * (211 / 400 - 189 / 400 * w)).
    by apply: Rmult_le_compat; nra.
  by rewrite /D; nra.
Qed.

Theorem cap_four L g P p a y :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y ->
  p <= g -> 4 * g + a <= 2 * x ->
  L <= 2 * P ^ 2 -> L <= 2 * (g * (P + p) - p * P) ->
  L - m1 * (y + p ^ 2) + m2 * (a - y) <= (2 - m1) * x ^ 2 / 4.
Proof.
apply: (cap_once x (2 * x)); rewrite /m1 /m2; try lra.
- by rewrite inside_four /m1; lra.
- by move=> Q Q0 _; apply: paid_four.
- by move=> Q Q0 _; apply: free_four.
- by move=> Q Q0 _ _; apply: full_four.
- by move=> u w wu ux h; apply: mixed_four; lra.
Qed.

End Four.

(* The same in words, pairs and products; L = E + F, and G is the mean of the
   widths of all columns together. *)
Theorem cap_four_words d M L G P p a y :
  0 < d -> 5 / 2 * d ^ 2 <= M ->
  0 <= p <= P -> 0 <= a -> 0 <= y <= M -> P ^ 2 = p ^ 2 + a + y ->
  d * p <= G -> 4 * G + a <= 2 * M ->
  L <= 2 * (d * P ^ 2) -> L <= 2 * (G * (P + p) - d * p * P) ->
  400 * d * L - 44 * d ^ 2 * (y + p ^ 2) + 144 * d ^ 2 * (a - y) <= 189 * M ^ 2.
Proof.
move=> d0 xM [p0 pP] a0 [y0 yM] PE pG GM LP LG.
have d2 : 0 < d ^ 2 by nra.
have d3 : 0 < d ^ 3 by nra.
have d4 : 0 < d ^ 4 by nra.
have := cap_four (M / d ^ 2) _ (L / d ^ 3) (G / d ^ 2) (P / d) (p / d) (a / d ^ 2) (y / d ^ 2).
have -> : 5 / 2 = 5 / 2 * d ^ 2 / d ^ 2 by field; lra.
have E1 : (P / d) ^ 2 = (p / d) ^ 2 + a / d ^ 2 + y / d ^ 2.
  have -> : (P / d) ^ 2 = P ^ 2 / d ^ 2 by field; lra.
  by rewrite PE; field; lra.
have E2 : 4 * (G / d ^ 2) + a / d ^ 2 <= 2 * (M / d ^ 2).
  have -> : 4 * (G / d ^ 2) + a / d ^ 2 = (4 * G + a) / d ^ 2 by field; lra.
  have -> : 2 * (M / d ^ 2) = 2 * M / d ^ 2 by field; lra.
  exact: div_le.
have E3 : p / d <= G / d ^ 2.
  have -> : p / d = d * p / d ^ 2 by field; lra.
  exact: div_le.
have E4 : L / d ^ 3 <= 2 * (P / d) ^ 2.
  have -> : 2 * (P / d) ^ 2 = 2 * (d * P ^ 2) / d ^ 3 by field; lra.
  exact: div_le.
have E5 : L / d ^ 3 <= 2 * (G / d ^ 2 * (P / d + p / d) - p / d * (P / d)).
  have -> : 2 * (G / d ^ 2 * (P / d + p / d) - p / d * (P / d))
      = 2 * (G * (P + p) - d * p * P) / d ^ 3 by field; lra.
  exact: div_le.
move=> /(_ (div_le _ _ _ d2 xM) (conj (div_ge0 _ _ d0 p0) (div_le _ _ _ d0 pP)) (div_ge0 _ _ d2 a0)
  (conj (div_ge0 _ _ d2 y0) (div_le _ _ _ d2 yM)) E1 E3 E2 E4 E5) /(Rmult_le_compat_l (400 * d ^ 4)).
move=> /(_ ltac:(lra)).
have -> : 400 * d ^ 4 * (L / d ^ 3 - 11 / 100 * (y / d ^ 2 + (p / d) ^ 2)
    + 36 / 100 * (a / d ^ 2 - y / d ^ 2))
  = 400 * d * L - 44 * d ^ 2 * (y + p ^ 2) + 144 * d ^ 2 * (a - y) by field; lra.
have -> : 400 * d ^ 4 * ((2 - 11 / 100) * (M / d ^ 2) ^ 2 / 4) = 189 * M ^ 2 by field; lra.
by [].
Qed.
