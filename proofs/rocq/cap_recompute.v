(* The largest charged work of a segment where scores may be recomputed:
   Lemma 7 of proofs/constant_tight.md, section 5.

   Section Cap is Lemma 7 for all x, T and multipliers allowed there: the left
   side of (1) is at most K as soon as the faces of the table are. Section Four
   says that at T = 2x, a0 = 0, m1 = 8/5, m2 = 1/25 and x >= 9/2 every face is
   at most x^2 / 2. All sizes are scaled as in cap.v. *)

From Coq Require Import Reals Lra Psatz List.
From Coq Require Import ssreflect ssrbool.
From iosim Require Import convex.
Import ListNotations.

Local Open Scope R_scope.

(* P = sqrt (k^2 + z) - k is where P^2 + 2 k P = z: j(z) has k = 1, i(z) k = 2. *)
Lemma corner k z : 0 <= k -> 0 <= z -> exists P, 0 <= P /\ P ^ 2 + 2 * k * P = z.
Proof.
move=> k0 z0; exists (sqrt (k ^ 2 + z) - k); split.
  have := sqrt_le_1_alt (k ^ 2) (k ^ 2 + z) ltac:(lra); rewrite sqrt_pow2 //; lra.
have : sqrt (k ^ 2 + z) ^ 2 = k ^ 2 + z by apply: pow2_sqrt; nra.
by lra.
Qed.

(* The charged work of Lemma 7, with b = a0 + m1 and c = 2 - a0. *)
Definition charged a0 m1 m2 g f P p a y :=
  (a0 + m1) * (g * (P + p) - p * P) + (2 - a0) * f * P - m1 * (y + p ^ 2) + m2 * (a - y).

Section Cap.

Variables (x T a0 m1 m2 K : R).
Hypotheses (x0 : 0 < x) (T0 : 0 < T).
Hypotheses (a0_ge0 : 0 <= a0) (m1_ge0 : 0 <= m1) (m2_ge0 : 0 <= m2) (m_le : m1 + m2 <= 2 - a0).
Hypothesis m2_le : forall P, 0 <= P -> T <= P ^ 2 + 4 * P -> m2 <= a0 + (2 - a0) * P / 2.

Local Notation b := (a0 + m1).
Local Notation c := (2 - a0).
Local Notation A := (T + x).
Local Notation start := ((m1 + 2 * m2) * x).
Local Notation both := ((m1 + m2) * x).

(* The table of Lemma 7. *)
Hypothesis onlyE : a0 * T ^ 2 / 4 <= K.
Hypothesis onlyM : m2 * T <= K.
Hypothesis inside : forall P, T / 4 <= P <= T / 2 -> (a0 - c) * P ^ 2 + c * T * P / 2 <= K.
Hypothesis a_paid : forall P, 0 <= P -> P ^ 2 <= T <= P ^ 2 + 2 * P ->
  c * (T - P ^ 2) * P / 2 + m2 * P ^ 2 <= K.
Hypothesis a_free : forall P, T / 2 <= P -> P ^ 2 <= x ->
  c * T * P / 2 - (m1 + m2) * P ^ 2 <= K.
Hypothesis a_full : forall P, 0 <= P -> x <= P ^ 2 -> P ^ 2 <= A <= P ^ 2 + 2 * P ->
  c * (A - P ^ 2) * P / 2 + m2 * P ^ 2 - start <= K.
Hypothesis a_mixed : forall P p, 0 <= p <= P -> P ^ 2 - p ^ 2 = x -> T / 2 <= P + p -> p <= T / 2 ->
  a0 * p ^ 2 + c * (T / 2 - p) * P - both <= K.
Hypothesis b_face : forall P, 0 <= P -> P ^ 2 + 2 * P <= T <= P ^ 2 + 4 * P ->
  - c * P ^ 3 / 2 + (b + m2 - c) * P ^ 2 + c * T * P / 2 <= K.
Hypothesis c_paid : forall P, 0 <= P -> P ^ 2 <= T <= P ^ 2 + 2 * P ->
  b * (T - P ^ 2) * P / 2 + m2 * P ^ 2 <= K.
Hypothesis c_free : forall P, T / 2 <= P -> P ^ 2 <= x ->
  b * T * P / 2 - (m1 + m2) * P ^ 2 <= K.
Hypothesis c_full : forall P, 0 <= P -> x <= P ^ 2 -> P ^ 2 <= A <= P ^ 2 + 2 * P ->
  b * (A - P ^ 2) * P / 2 + m2 * P ^ 2 - start <= K.
Hypothesis c_mixed : forall P p, 0 <= p <= P -> P ^ 2 - p ^ 2 = x -> p <= T / 2 <= P ->
  b * (T * (P + p) / 2 - p * P) - m1 * (p ^ 2 + x) - m2 * x <= K.
Hypothesis d_paid : forall P, 0 <= P -> P ^ 2 + 2 * P <= T <= P ^ 2 + 4 * P ->
  - b * P ^ 3 / 2 + (c - b + m2) * P ^ 2 + b * T * P / 2 <= K.
Hypothesis d_free : forall P, T / 4 <= P <= T / 2 -> P ^ 2 <= x ->
  (c - b - m1 - m2) * P ^ 2 + b * T * P / 2 <= K.
Hypothesis d_full : forall P, 0 <= P -> x <= P ^ 2 -> P ^ 2 + 2 * P <= A <= P ^ 2 + 4 * P ->
  - b * P ^ 3 / 2 + (c - b + m2) * P ^ 2 + b * A * P / 2 - start <= K.
Hypothesis d_mixed : forall P p, 0 <= p <= P -> P ^ 2 - p ^ 2 = x -> P + p <= T / 2 -> T / 4 <= P ->
  c * P ^ 2 + b * ((T / 2 - P) * (P + p) - p * P) - m1 * (p ^ 2 + x) - m2 * x <= K.

Local Notation ell := (charged a0 m1 m2).

(* Move along a line to its ends: h is ell on the line, cs the constraints. *)
Ltac to_ends h cs lo hi :=
  apply: (quadratic_at_ends h K cs lo hi);
  [ by move=> ?; unfold h, charged; field | by unfold h, charged; lra | by repeat split; reg
  | lra | by move=> /=; lra | unfold h, cs; cbv beta iota delta [all_ge0 some_0] ].

(* Both widths are P, or what is left where they could be larger. *)
Lemma cap_wide P a :
  0 <= P -> 0 <= a <= P ^ 2 -> 4 * P + a <= T -> 2 * P ^ 2 + (m1 + m2) * a <= K.
Proof.
move=> P0 [a_ge0 aP] aT.
have [Q [Q0 QT]] := corner 2 T ltac:(lra) ltac:(lra).
have left_end : (2 + m1 + m2) * Q ^ 2 <= K.
  by have := b_face Q Q0 ltac:(nra); rewrite -QT; lra.
have right_end := inside (T / 4) ltac:(lra).
case: (Rle_lt_dec P Q) => PQ.
  by have : P ^ 2 <= Q ^ 2 by [nra]; nra.
have : 2 * P ^ 2 + (- 4 * (m1 + m2)) * P + (m1 + m2) * T <= K.
  by apply: (convex_between _ _ _ K Q (T / 4)); nra.
nra.
Qed.

(* B: g = P. *)
Lemma cap_B P a f : 0 <= P -> 0 <= a <= P ^ 2 -> 0 <= f <= P -> 2 * P + 2 * f + a = T ->
  a0 * P ^ 2 + (m1 + m2) * a + c * f * P <= K.
Proof.
move=> P0 aP fP sum; have fE : f = (T - a) / 2 - P by lra.
subst f.
pose h z := a0 * P ^ 2 + (m1 + m2) * z + c * ((T - z) / 2 - P) * P.
pose cs := [(fun z => (T - z) / 2 - P); (fun z => P - ((T - z) / 2 - P))].
apply: (quadratic_at_ends h K cs 0 (P ^ 2)); rewrite /h /=.
- by move=> z; rewrite /h; field.
- lra.
- by repeat split; reg.
- lra.
- lra.
- move=> z zP [f0 [fP' _]]; case=> [[e|[e|//]]|[e|e]].
  + have -> : z = T - 2 * P by lra.
    have [Q [Q0 QT]] := corner 1 T ltac:(lra) ltac:(lra).
    have left_end : (a0 + m1 + m2) * Q ^ 2 <= K.
      by have := b_face Q Q0 ltac:(nra); rewrite -QT; lra.
    have Qa : (m1 + m2) * (T - 2 * Q) = (m1 + m2) * Q ^ 2 by rewrite -QT; ring.
    have QP : Q <= P by nra.
    have : a0 * P ^ 2 + (- 2 * (m1 + m2)) * P + (m1 + m2) * T <= K.
      by apply: (convex_between _ _ _ K Q (T / 2)); lra.
    lra.
  + by have := cap_wide P z P0 zP ltac:(lra); rewrite (_ : (T - z) / 2 - P = P); lra.
  + by subst z; have := inside P ltac:(lra); lra.
  + by subst z; have := b_face P P0 ltac:(lra); lra.
Qed.

(* The edge AC: g = p, f = 0. *)
Lemma cap_AC p a : 0 <= p -> 0 <= a -> 2 * p + a = T -> a0 * p ^ 2 + m2 * a <= K.
Proof.
move=> p0 a_ge0 sum.
have : a0 * p ^ 2 + (- 2 * m2) * p + m2 * T <= K.
  by apply: (convex_between _ _ _ K 0 (T / 2)); lra.
have -> : a = T - 2 * p by lra.
lra.
Qed.

(* B in terms of the charged work. *)
Lemma charged_B P p a y f :
  0 <= P -> 0 <= a -> 0 <= y -> P ^ 2 = p ^ 2 + a + y -> 0 <= f <= P -> 2 * P + 2 * f + a = T ->
  ell P f P p a y <= K.
Proof.
move=> P0 a_ge0 y0 PE fP sum; have := cap_B P a f P0 _ fP sum.
have a_le : 0 <= a <= P ^ 2 by nra.
have : 0 <= m2 * y by apply: Rmult_le_pos.
have -> : ell P f P p a y = (a0 + m1) * P ^ 2 + (2 - a0) * f * P - m1 * (P ^ 2 - a) + m2 * (a - y).
  have yE : y = P ^ 2 - a - p ^ 2 by lra.
  by rewrite /charged yE; ring.
by move=> my /(_ a_le); lra.
Qed.

Lemma charged_AC P p a y :
  0 <= p -> 0 <= a -> 0 <= y -> 2 * p + a = T -> ell p 0 P p a y <= K.
Proof.
move=> p0 a_ge0 y0 sum; have := cap_AC p a p0 a_ge0 sum.
have : 0 <= (m1 + m2) * y by apply: Rmult_le_pos; lra.
by rewrite /charged; lra.
Qed.

(* The edge AD, g = p and f = P: its ends first. *)
Lemma cap_AD_no_inner P y :
  0 <= P -> 2 * P <= T -> y = P ^ 2 + 2 * P - T -> 0 <= y <= x ->
  ell 0 P P 0 (T - 2 * P) y <= K.
Proof.
move=> P0 PT yE y0x.
pose h z := ell 0 z z 0 (T - 2 * z) (z ^ 2 + 2 * z - T).
pose cs := [(fun z => z ^ 2 + 2 * z - T); (fun z => x - (z ^ 2 + 2 * z - T))].
rewrite yE -/(h P).
to_ends h cs 0 (T / 2) => z [z0 zT] [y0 [yx _]]; case=> [[e|[e|//]]|[e|e]].
- have TE : T = z ^ 2 + 2 * z by lra.
  by have := a_paid z z0 ltac:(nra); rewrite /charged TE; lra.
- have TE : T = z ^ 2 + 2 * z - x by lra.
  by have := a_full z z0 ltac:(lra) ltac:(nra); rewrite /charged TE; lra.
- by subst z; lra.
- by subst z; have := a_free (T / 2) ltac:(lra) ltac:(lra); rewrite /charged; lra.
Qed.

(* Along 2 u + u w = z the square of w is convex in u. *)
Lemma cap_AD_curve z lo hi u K0 :
  0 < lo -> lo <= u <= hi -> 2 * hi <= z ->
  let h v := 1 / 2 * (v ^ 2 + (z / v - 2) ^ 2) + ((c - a0) / 2 + m2) * (z - 2 * v) in
  h lo <= K0 -> h hi <= K0 -> h u <= K0.
Proof.
move=> lo0 luh hiz h hlo hhi.
apply: (convex_at_ends h K0 [] lo hi) => //; last first.
  by move=> v _ _ [[]|[->|->]].
move=> r s t rs st.
have sq := convex_square_of_inverse z lo hi lo0 ltac:(lra) hiz r s t rs st.
have := convex_quadratic (1 / 2) 0 0 lo hi ltac:(lra) r s t rs st.
by move: sq; rewrite /h; lra.
Qed.

(* AD with y = 0 (z = T, s = 0) and with y = x (z = A, s = x) in u and w. *)
Lemma charged_AD u w z s : 0 < u -> u * w = z - 2 * u ->
  ell ((u - w) / 2) ((u + w) / 2) ((u + w) / 2) ((u - w) / 2) (z - 2 * u - s) s
    = 1 / 2 * (u ^ 2 + (z / u - 2) ^ 2) + ((c - a0) / 2 + m2) * (z - 2 * u) - (m1 + 2 * m2) * s.
Proof.
move=> u0 uw; have -> : z = u * w + 2 * u by lra.
by rewrite /charged; field; lra.
Qed.

Lemma cap_AD_no_fresh u w : 0 <= w <= u -> u * w = T - 2 * u ->
  ell ((u - w) / 2) ((u + w) / 2) ((u + w) / 2) ((u - w) / 2) (u * w) 0 <= K.
Proof.
move=> wu uw; have u0 : 0 < u by nra.
have [Q [Q0 QT]] := corner 1 T ltac:(lra) ltac:(lra).
have Qu : Q <= u by nra.
have Q_gt0 : 0 < Q by nra.
have uT : u <= T / 2 by nra.
have := charged_AD u w T 0 u0 uw.
rewrite -uw Rminus_0_r => ->; rewrite Rmult_0_r Rminus_0_r uw.
apply: (cap_AD_curve T Q (T / 2)) => //; first lra.
- have -> : T / Q - 2 = Q by rewrite -QT; field; lra.
  by have := a_paid Q Q0 ltac:(nra); rewrite -QT; lra.
- have -> : T / (T / 2) - 2 = 0 by field; lra.
  by have := inside (T / 4) ltac:(lra); lra.
Qed.

Lemma cap_AD_most_fresh u w : 0 <= w <= u -> u * w = A - 2 * u -> 2 * u <= T ->
  ell ((u - w) / 2) ((u + w) / 2) ((u + w) / 2) ((u - w) / 2) (u * w - x) x <= K.
Proof.
move=> wu uw uT; have u0 : 0 < u by nra.
have [Q [Q0 QT]] := corner 1 A ltac:(lra) ltac:(lra).
have Qu : Q <= u by nra.
have Q_gt0 : 0 < Q by nra.
have := charged_AD u w A x u0 uw.
rewrite -uw => ->; rewrite uw.
suff : 1 / 2 * (u ^ 2 + (A / u - 2) ^ 2) + ((c - a0) / 2 + m2) * (A - 2 * u) <= K + start by lra.
apply: (cap_AD_curve A Q (T / 2)); [lra | lra | lra | |].
- have -> : A / Q - 2 = Q by rewrite -QT; field; lra.
  by have := a_full Q Q0 ltac:(lra) ltac:(nra); rewrite -QT; lra.
- have -> : A / (T / 2) - 2 = x / (T / 2) by field; lra.
  set v := x / (T / 2).
  have vx : T / 2 * v = x by rewrite /v; field; lra.
  have v0 : 0 <= v by apply: (Rmult_le_reg_l (T / 2)); lra.
  have vu : v <= T / 2 by apply: (Rmult_le_reg_l (T / 2)); nra.
  have := a_mixed ((T / 2 + v) / 2) ((T / 2 - v) / 2) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra).
  by rewrite -vx; lra.
Qed.

Lemma cap_AD P p a y :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> 2 * p + 2 * P + a = T ->
  ell p P P p a y <= K.
Proof.
move=> pP a_ge0 yx PE sum.
pose u := P + p.
pose h z := ell ((u - z) / 2) ((u + z) / 2) ((u + z) / 2) ((u - z) / 2) (T - 2 * u)
  (u * z - (T - 2 * u)).
pose cs := [(fun z => u * z - (T - 2 * u)); (fun z => x - (u * z - (T - 2 * u)))].
have -> : ell p P P p a y = h (P - p).
  rewrite /h /u; have -> : (P + p - (P - p)) / 2 = p by field.
  have -> : (P + p + (P - p)) / 2 = P by field.
  have -> : T - 2 * (P + p) = a by lra.
  by have -> : (P + p) * (P - p) - a = y by lra.
have [u0 uT] : 0 <= P - p <= u /\ 2 * u <= T by rewrite /u; lra.
have [y0 yx'] : 0 <= u * (P - p) - (T - 2 * u) <= x by rewrite /u; lra.
to_ends h cs 0 u => z [z0 zu] [y0' [yx'' _]]; case=> [[e|[e|//]]|[e|e]].
- have := cap_AD_no_fresh u z ltac:(lra) ltac:(lra).
  have TE : T = u * z + 2 * u by lra.
  by rewrite /charged TE; lra.
- have := cap_AD_most_fresh u z ltac:(lra) ltac:(lra) uT.
  have TE : T = u * z + 2 * u - x by lra.
  by rewrite /charged TE; lra.
- have uE : u = T / 2 by nra.
  by subst z; rewrite uE; have := inside (T / 4) ltac:(lra); rewrite /charged; lra.
- have yE : u * z - (T - 2 * u) = u ^ 2 + 2 * u - T by rewrite e; ring.
  have := cap_AD_no_inner u _ ltac:(lra) uT yE ltac:(lra).
  by rewrite e /charged; lra.
Qed.

(* A: g = p, at fixed P, along p. *)
Lemma cap_A_no_fresh P p a f :
  0 <= p <= P -> 0 <= a -> P ^ 2 = p ^ 2 + a -> 0 <= f <= P -> 2 * p + 2 * f + a = T ->
  ell p f P p a 0 <= K.
Proof.
move=> pP a_ge0 PE fP sum.
have curve := m2_le P ltac:(lra) ltac:(nra).
pose h z := ell z ((T - (P ^ 2 - z ^ 2)) / 2 - z) P z (P ^ 2 - z ^ 2) 0.
pose cs := [(fun z => (T - (P ^ 2 - z ^ 2)) / 2 - z);
  (fun z => P - ((T - (P ^ 2 - z ^ 2)) / 2 - z))].
have aE : a = P ^ 2 - p ^ 2 by lra.
have fE : f = (T - (P ^ 2 - p ^ 2)) / 2 - p by lra.
have -> : ell p f P p a 0 = h p by rewrite /h -fE -aE.
to_ends h cs 0 P => z [z0 zP] [f0 [fP' _]]; case=> [[e|[e|//]]|[e|e]].
- by rewrite e; apply: charged_AC; nra.
- have -> : (T - (P ^ 2 - z ^ 2)) / 2 - z = P by lra.
  by apply: cap_AD; nra.
- by subst z; have := a_paid P ltac:(lra) ltac:(lra); rewrite /charged; lra.
- by subst z; have := inside P ltac:(lra); rewrite /charged; lra.
Qed.

Lemma cap_A_all_fresh P p y f :
  0 <= p <= P -> 0 <= y <= x -> P ^ 2 = p ^ 2 + y -> 0 <= f <= P -> 2 * p + 2 * f = T ->
  ell p f P p 0 y <= K.
Proof.
move=> pP y0x PE fP sum.
pose h z := ell z (T / 2 - z) P z 0 (P ^ 2 - z ^ 2).
pose cs := [(fun z => T / 2 - z); (fun z => P - (T / 2 - z)); (fun z => x - (P ^ 2 - z ^ 2))].
have yE : y = P ^ 2 - p ^ 2 by lra.
have fE : f = T / 2 - p by lra.
have -> : ell p f P p 0 y = h p by rewrite /h -fE -yE.
to_ends h cs 0 P => z [z0 zP] [f0 [fP' [yx _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- by rewrite e; apply: charged_AC; nra.
- have -> : T / 2 - z = P by lra.
  by apply: cap_AD; nra.
- have -> : P ^ 2 - z ^ 2 = x by lra.
  have := a_mixed P z ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra).
  by rewrite /charged; lra.
- by subst z; have := a_free P ltac:(lra) ltac:(lra); rewrite /charged; lra.
- by subst z; have := inside P ltac:(lra); rewrite /charged; lra.
Qed.

Lemma cap_A_most_fresh P p a f :
  0 <= p <= P -> 0 <= a -> P ^ 2 = p ^ 2 + a + x -> 0 <= f <= P -> 2 * p + 2 * f + a = T ->
  ell p f P p a x <= K.
Proof.
move=> pP a_ge0 PE fP sum.
have curve := m2_le P ltac:(lra) ltac:(nra).
pose h z := ell z ((A - (P ^ 2 - z ^ 2)) / 2 - z) P z (P ^ 2 - z ^ 2 - x) x.
pose cs := [(fun z => (A - (P ^ 2 - z ^ 2)) / 2 - z);
  (fun z => P - ((A - (P ^ 2 - z ^ 2)) / 2 - z)); (fun z => P ^ 2 - z ^ 2 - x)].
have aE : a = P ^ 2 - p ^ 2 - x by lra.
have fE : f = (A - (P ^ 2 - p ^ 2)) / 2 - p by lra.
have -> : ell p f P p a x = h p by rewrite /h -fE -aE.
to_ends h cs 0 P => z [z0 zP] [f0 [fP' [az _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- by rewrite e; apply: charged_AC; nra.
- have -> : (A - (P ^ 2 - z ^ 2)) / 2 - z = P by lra.
  by apply: cap_AD; nra.
- have := a_mixed P z ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra).
  have xE : x = P ^ 2 - z ^ 2 by lra.
  by rewrite /charged xE; lra.
- by subst z; have := a_full P ltac:(lra) ltac:(lra) ltac:(lra); rewrite /charged; lra.
- by subst z; lra.
Qed.

Lemma cap_A P p a y f :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> 0 <= f <= P ->
  2 * p + 2 * f + a = T -> ell p f P p a y <= K.
Proof.
move=> pP a_ge0 y0x PE fP sum.
pose n := P ^ 2 - p ^ 2.
pose h z := ell p ((T - (n - z)) / 2 - p) P p (n - z) z.
pose cs := [(fun z => n - z); (fun z => (T - (n - z)) / 2 - p);
  (fun z => P - ((T - (n - z)) / 2 - p))].
have aE : a = n - y by rewrite /n; lra.
have fE : f = (T - (n - y)) / 2 - p by lra.
have -> : ell p f P p a y = h y by rewrite /h -fE -aE.
to_ends h cs 0 x => z [z0 zx] [az [f0 [fP' _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- by rewrite e; apply: cap_A_all_fresh => //; rewrite /n in az e *; lra.
- by rewrite e; apply: charged_AC; lra.
- have -> : (T - (n - z)) / 2 - p = P by lra.
  by apply: cap_AD => //; rewrite /n in az e *; lra.
- by subst z; apply: cap_A_no_fresh => //; rewrite /n in az *; lra.
- by subst z; apply: cap_A_most_fresh => //; rewrite /n in az *; lra.
Qed.

(* C and D: f = t P with t = 0 or t = 1, in u and w. *)
Section Along.

Variable t : R.
Hypothesis t01 : t = 0 \/ t = 1.

(* The ends g = p and g = P, and the faces. *)
Hypothesis low : forall P p a y, 0 <= p <= P -> 0 <= a -> 0 <= y <= x ->
  P ^ 2 = p ^ 2 + a + y -> 2 * p + 2 * (t * P) + a = T -> ell p (t * P) P p a y <= K.
Hypothesis paidK : forall P g, 0 <= g <= P -> 2 * g + 2 * (t * P) + P ^ 2 = T ->
  ell g (t * P) P 0 (P ^ 2) 0 <= K.
Hypothesis freeK : forall P g, 0 <= g <= P -> P ^ 2 <= x -> 2 * g + 2 * (t * P) = T ->
  ell g (t * P) P 0 0 (P ^ 2) <= K.
Hypothesis fullK : forall P g, 0 <= g <= P -> x <= P ^ 2 -> 2 * g + 2 * (t * P) + P ^ 2 = A ->
  ell g (t * P) P 0 (P ^ 2 - x) x <= K.
Hypothesis mixedK : forall P p g, 0 <= p <= P -> P ^ 2 - p ^ 2 = x -> p <= g <= P ->
  2 * g + 2 * (t * P) = T -> ell g (t * P) P p 0 x <= K.

Lemma high P p a y : 0 <= p <= P -> 0 <= a -> 0 <= y -> P ^ 2 = p ^ 2 + a + y ->
  2 * P + 2 * (t * P) + a = T -> ell P (t * P) P p a y <= K.
Proof.
move=> pP a_ge0 y0 PE sum; apply: charged_B; try lra.
by case: t01 => ->; lra.
Qed.

Lemma t_curve : 0 <= c * t.
Proof. by case: t01 => ->; lra. Qed.

Local Notation width z u w := (z / 2 - t * ((u + w) / 2)).

Lemma along_no_fresh u w g :
  0 <= w <= u -> g = width (T - u * w) u w -> (u - w) / 2 <= g <= (u + w) / 2 ->
  ell g (t * ((u + w) / 2)) ((u + w) / 2) ((u - w) / 2) (u * w) 0 <= K.
Proof.
move=> wu gE gP; subst g; have curve := t_curve.
pose h z := ell (width (T - u * z) u z) (t * ((u + z) / 2)) ((u + z) / 2) ((u - z) / 2) (u * z) 0.
pose cs := [(fun z => width (T - u * z) u z - (u - z) / 2);
  (fun z => (u + z) / 2 - width (T - u * z) u z)].
to_ends h cs 0 u => z [z0 zu] [lo [hi _]]; case=> [[e|[e|//]]|[e|e]].
- have gE : width (T - u * z) u z = (u - z) / 2 by lra.
  by rewrite gE; apply: low; nra.
- have gE : width (T - u * z) u z = (u + z) / 2 by lra.
  by rewrite gE; apply: high; nra.
- subst z; have gE : width (T - u * 0) u 0 = (u - 0) / 2 by lra.
  by rewrite gE; apply: low; nra.
- subst z; have := paidK u (width (T - u * u) u u) ltac:(lra) ltac:(lra).
  by rewrite /charged; lra.
Qed.

Lemma along_all_fresh u w g :
  0 <= w <= u -> u * w <= x -> g = width T u w -> (u - w) / 2 <= g <= (u + w) / 2 ->
  ell g (t * ((u + w) / 2)) ((u + w) / 2) ((u - w) / 2) 0 (u * w) <= K.
Proof.
move=> wu uwx gE gP; subst g; have curve := t_curve.
pose h z := ell (width T u z) (t * ((u + z) / 2)) ((u + z) / 2) ((u - z) / 2) 0 (u * z).
pose cs := [(fun z => width T u z - (u - z) / 2); (fun z => (u + z) / 2 - width T u z);
  (fun z => x - u * z)].
to_ends h cs 0 u => z [z0 zu] [lo [hi [zx _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- have gE : width T u z = (u - z) / 2 by lra.
  by rewrite gE; apply: low; nra.
- have gE : width T u z = (u + z) / 2 by lra.
  by rewrite gE; apply: high; nra.
- have -> : u * z = x by lra.
  by apply: mixedK; lra.
- subst z; have gE : width T u 0 = (u - 0) / 2 by lra.
  by rewrite gE; apply: low; nra.
- subst z; have := freeK u (width T u u) ltac:(lra) ltac:(lra) ltac:(lra).
  by rewrite /charged; lra.
Qed.

Lemma along_most_fresh u w g :
  0 <= w <= u -> x <= u * w -> g = width (A - u * w) u w -> (u - w) / 2 <= g <= (u + w) / 2 ->
  ell g (t * ((u + w) / 2)) ((u + w) / 2) ((u - w) / 2) (u * w - x) x <= K.
Proof.
move=> wu uwx gE gP; subst g; have curve := t_curve.
pose h z := ell (width (A - u * z) u z) (t * ((u + z) / 2)) ((u + z) / 2) ((u - z) / 2)
  (u * z - x) x.
pose cs := [(fun z => width (A - u * z) u z - (u - z) / 2);
  (fun z => (u + z) / 2 - width (A - u * z) u z); (fun z => u * z - x)].
to_ends h cs 0 u => z [z0 zu] [lo [hi [zx _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- have gE : width (A - u * z) u z = (u - z) / 2 by lra.
  by rewrite gE; apply: low; nra.
- have gE : width (A - u * z) u z = (u + z) / 2 by lra.
  by rewrite gE; apply: high; nra.
- have aE : u * z - x = 0 by lra.
  have gE : width (A - u * z) u z = width T u z by lra.
  by rewrite aE; apply: mixedK; lra.
- by subst z; lra.
- subst z; have := fullK u (width (A - u * u) u u) ltac:(lra) ltac:(lra) ltac:(lra).
  by rewrite /charged; lra.
Qed.

Lemma cap_along P p a y g :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> p <= g <= P ->
  2 * g + 2 * (t * P) + a = T -> ell g (t * P) P p a y <= K.
Proof.
move=> pP a_ge0 y0x PE gP sum.
pose n := P ^ 2 - p ^ 2.
pose h z := ell ((T - (n - z)) / 2 - t * P) (t * P) P p (n - z) z.
pose cs := [(fun z => n - z); (fun z => (T - (n - z)) / 2 - t * P - p);
  (fun z => P - ((T - (n - z)) / 2 - t * P))].
have aE : a = n - y by rewrite /n; lra.
have gE : g = (T - (n - y)) / 2 - t * P by lra.
have -> : ell g (t * P) P p a y = h y by rewrite /h -gE -aE.
have uw : (P + p) * (P - p) = n by rewrite /n; ring.
have up : (P + p + (P - p)) / 2 = P by field.
have down : (P + p - (P - p)) / 2 = p by field.
to_ends h cs 0 x => z [z0 zx] [az [lo [hi _]]]; case=> [[e|[e|[e|//]]]|[e|e]].
- have -> : z = n by lra.
  have := along_all_fresh (P + p) (P - p) ((T - (n - n)) / 2 - t * P).
  by rewrite uw up down Rminus_eq_0; apply; lra.
- have -> : (T - (n - z)) / 2 - t * P = p by lra.
  by apply: low; rewrite /n in az e *; lra.
- have -> : (T - (n - z)) / 2 - t * P = P by lra.
  by apply: high; rewrite /n in az e *; lra.
- have := along_no_fresh (P + p) (P - p) ((T - (n - 0)) / 2 - t * P).
  by subst z; rewrite uw up down Rminus_0_r; apply; lra.
- have := along_most_fresh (P + p) (P - p) ((T - (n - x)) / 2 - t * P).
  by subst z; rewrite uw up down; apply; lra.
Qed.

End Along.

Lemma cap_C P p a y g :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> p <= g <= P ->
  2 * g + a = T -> ell g 0 P p a y <= K.
Proof.
move=> pP a_ge0 y0x PE gP sum; rewrite -(Rmult_0_l P).
apply: (cap_along 0) => //; [by left | | | | | | lra].
- move=> Q r a' y' rQ a0' y0' QE; rewrite !Rmult_0_l => sum'.
  by apply: charged_AC; lra.
- move=> Q h hQ; rewrite !Rmult_0_l => sum'; have hE : h = (T - Q ^ 2) / 2 by lra.
  by have := c_paid Q ltac:(lra) ltac:(lra); rewrite /charged hE; lra.
- move=> Q h hQ Qx; rewrite !Rmult_0_l => sum'; have hE : h = T / 2 by lra.
  by have := c_free Q ltac:(lra) ltac:(lra); rewrite /charged hE; lra.
- move=> Q h hQ Qx; rewrite !Rmult_0_l => sum'; have hE : h = (A - Q ^ 2) / 2 by lra.
  by have := c_full Q ltac:(lra) ltac:(lra) ltac:(lra); rewrite /charged hE; lra.
- move=> Q r h rQ xE hQ; rewrite !Rmult_0_l => sum'; have hE : h = T / 2 by lra.
  by have := c_mixed Q r rQ xE ltac:(lra); rewrite /charged hE; lra.
Qed.

Lemma cap_D P p a y g :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> p <= g <= P ->
  2 * g + 2 * P + a = T -> ell g P P p a y <= K.
Proof.
move=> pP a_ge0 y0x PE gP sum; rewrite -{1}(Rmult_1_l P).
apply: (cap_along 1) => //; [by right | | | | | | lra].
- move=> Q r a' y' rQ a0' y0' QE; rewrite !Rmult_1_l => sum'.
  by apply: cap_AD; lra.
- move=> Q h hQ; rewrite !Rmult_1_l => sum'; have hE : h = (T - Q ^ 2) / 2 - Q by lra.
  by have := d_paid Q ltac:(lra) ltac:(lra); rewrite /charged hE; lra.
- move=> Q h hQ Qx; rewrite !Rmult_1_l => sum'; have hE : h = T / 2 - Q by lra.
  by have := d_free Q ltac:(lra) ltac:(lra); rewrite /charged hE; lra.
- move=> Q h hQ Qx; rewrite !Rmult_1_l => sum'; have hE : h = (A - Q ^ 2) / 2 - Q by lra.
  by have := d_full Q ltac:(lra) ltac:(lra) ltac:(lra); rewrite /charged hE; lra.
- move=> Q r h rQ xE hQ; rewrite !Rmult_1_l => sum'; have hE : h = T / 2 - Q by lra.
  by have := d_mixed Q r rQ xE ltac:(lra) ltac:(lra); rewrite /charged hE; lra.
Qed.

(* Lemma 7 where 2 g + 2 f + a = T. *)
Lemma cap_tight P p a y g f :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> p <= g <= P -> 0 <= f <= P ->
  2 * g + 2 * f + a = T -> ell g f P p a y <= K.
Proof.
move=> pP a_ge0 y0x PE gP fP sum.
pose h z := ell z ((T - a) / 2 - z) P p a y.
pose cs := [(fun z => (T - a) / 2 - z); (fun z => P - ((T - a) / 2 - z))].
have fE : f = (T - a) / 2 - g by lra.
have -> : ell g f P p a y = h g by rewrite /h -fE.
to_ends h cs p P => z [z0 zP] [f0 [fP' _]]; case=> [[e|[e|//]]|[e|e]].
- by rewrite e; apply: cap_C => //; lra.
- have -> : (T - a) / 2 - z = P by lra.
  by apply: cap_D => //; lra.
- by subst z; apply: cap_A => //; lra.
- by subst z; apply: charged_B => //; lra.
Qed.

(* Lemma 7: E and F are the products, g and f the widths. *)
Theorem cap_recompute E F P p a y g f :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> p <= g -> 0 <= f ->
  2 * g + 2 * f + a <= T ->
  E <= P ^ 2 -> E <= g * (P + p) - p * P -> F <= P ^ 2 -> F <= f * P ->
  b * E + c * F - m1 * (y + p ^ 2) + m2 * (a - y) <= K.
Proof.
move=> pP a_ge0 y0x PE pg f0 sum EP Eg FP Ff.
have c_ge0 : 0 <= c by lra.
have work g' f' : (g <= g' \/ g' = P) -> (f <= f' \/ f' = P) -> p <= g' <= P -> 0 <= f' <= P ->
    2 * g' + 2 * f' + a = T -> b * E + c * F - m1 * (y + p ^ 2) + m2 * (a - y) <= K.
  move=> gg' ff' gP fP sum'.
  have := cap_tight P p a y g' f' pP a_ge0 y0x PE gP fP sum'; rewrite /charged.
  have : b * E <= b * (g' * (P + p) - p * P).
    by apply: Rmult_le_compat_l; [lra | case: gg' => [gg'|->]; nra].
  have : c * F <= c * (f' * P).
    by apply: Rmult_le_compat_l; [lra | case: ff' => [ff'|->]; nra].
  by lra.
case: (Rle_lt_dec (2 * P + 2 * P + a) T) => wide.
  have := cap_wide P a ltac:(lra) ltac:(nra) ltac:(lra).
  have : b * E <= b * P ^ 2 by apply: Rmult_le_compat_l; lra.
  have : c * F <= c * P ^ 2 by apply: Rmult_le_compat_l; lra.
  have : 0 <= m2 * y by apply: Rmult_le_pos; lra.
  have -> : y + p ^ 2 = P ^ 2 - a by lra.
  by lra.
pose f1 := Rmin f P.
have f1f : f1 <= f := Rmin_l _ _.
have f1P : f1 <= P := Rmin_r _ _.
have f1_ge0 : 0 <= f1 by apply: Rmin_glb; lra.
have f1_or : f <= f1 \/ f1 = P by rewrite /f1 /Rmin; case: Rle_dec; lra.
case: (Rle_lt_dec ((T - a) / 2 - f1) P) => room.
- by apply: (work ((T - a) / 2 - f1) f1) => //; lra.
- by apply: (work P ((T - a) / 2 - P)); lra.
Qed.

End Cap.

(* The faces at T = 2 x for x >= 9/2. *)
Section Four.

Variable x : R.
Hypothesis x_ge : 9 / 2 <= x.

Local Notation K := (x ^ 2 / 2).

Lemma a_paid_four P : 0 <= P -> P ^ 2 <= 2 * x <= P ^ 2 + 2 * P ->
  (2 * x - P ^ 2) * P + 1 / 25 * P ^ 2 <= K.
Proof.
move=> P0 [_ xP]; have P2 : 51 / 25 <= P by nra.
have : 0 <= (x - 2 * P) ^ 2 by exact: pow2_ge_0.
have : 0 <= P ^ 2 * (P - 51 / 25) by apply: Rmult_le_pos; nra.
lra.
Qed.

Lemma a_full_four P : 0 <= P -> P ^ 2 <= 3 * x <= P ^ 2 + 2 * P ->
  (3 * x - P ^ 2) * P + 1 / 25 * P ^ 2 - 42 / 25 * x <= K.
Proof.
move=> P0 [Px xP]; have P2 : 14 / 5 <= P by nra.
case: (Rle_lt_dec P (33 / 10)) => P3.
- pose z := (P ^ 2 + 2 * P) / 3.
  have fall : 0 <= (z - x) * (3 * P - 42 / 25 - (z + x) / 2).
    by apply: Rmult_le_pos; rewrite /z; nra.
  have : 0 <= z ^ 2 / 2 + 42 / 25 * z - 51 / 25 * P ^ 2 by rewrite /z; nra.
  by move: fall; rewrite /z; lra.
- have : 0 <= (x - 3 * P + 42 / 25) ^ 2 by exact: pow2_ge_0.
  have : 0 <= P ^ 2 * (P - 33 / 10) by apply: Rmult_le_pos; nra.
  nra.
Qed.

Lemma a_mixed_four P p : 0 <= p <= P -> P ^ 2 - p ^ 2 = x -> x <= P + p -> p <= x ->
  2 * (x - p) * P - 41 / 25 * x <= K.
Proof.
move=> [p0 pP] xE ux px.
have [u [w [PE pE]]] : exists u w, P = (u + w) / 2 /\ p = (u - w) / 2.
  by exists (P + p), (P - p); lra.
subst P p; have uw : u * w = x by lra.
have w0 : 0 <= w by lra.
have w1 : w <= 1 by nra.
have : 0 <= u ^ 2 * (1 - w) ^ 2 by apply: Rmult_le_pos; exact: pow2_ge_0.
have : 0 <= (u * w) * (1 - w) by apply: Rmult_le_pos; nra.
have : 0 <= w * (u - w) by apply: Rmult_le_pos; lra.
rewrite -uw; nra.
Qed.

Lemma b_face_four P : 0 <= P -> P ^ 2 + 2 * P <= 2 * x <= P ^ 2 + 4 * P ->
  - P ^ 3 - 9 / 25 * P ^ 2 + 2 * x * P <= K.
Proof.
move=> P0 [Px xP]; case: (Rle_lt_dec P (41 / 25)) => P1.
- have rise : 0 <= (x - 9 / 2) * ((x + 9 / 2) / 2 - 2 * P) by apply: Rmult_le_pos; lra.
  have : 0 <= (P - 8 / 5) ^ 2 * (P + 7 / 2).
    by apply: Rmult_le_pos; [exact: pow2_ge_0 | lra].
  nra.
- have : 0 <= (x - 2 * P) ^ 2 by exact: pow2_ge_0.
  have : 0 <= P ^ 2 * (P - 41 / 25) by apply: Rmult_le_pos; nra.
  lra.
Qed.

Lemma c_paid_four P : 0 <= P -> P ^ 2 <= 2 * x <= P ^ 2 + 2 * P ->
  4 / 5 * (2 * x - P ^ 2) * P + 1 / 25 * P ^ 2 <= K.
Proof.
move=> P0 [_ xP]; have P2 : 33 / 20 <= P by nra.
have : 0 <= (x - 8 / 5 * P) ^ 2 by exact: pow2_ge_0.
have : 0 <= P ^ 2 * (P - 33 / 20) by apply: Rmult_le_pos; nra.
lra.
Qed.

Lemma c_full_four P : 0 <= P -> P ^ 2 <= 3 * x <= P ^ 2 + 2 * P ->
  4 / 5 * (3 * x - P ^ 2) * P + 1 / 25 * P ^ 2 - 42 / 25 * x <= K.
Proof.
move=> P0 [Px xP]; have P2 : 14 / 5 <= P by nra.
have : 0 <= (x - 12 / 5 * P + 42 / 25) ^ 2 by exact: pow2_ge_0.
have : 0 <= P ^ 2 * (P - 14 / 5) by apply: Rmult_le_pos; nra.
nra.
Qed.

Lemma c_mixed_four P p : 0 <= p <= P -> P ^ 2 - p ^ 2 = x -> p <= x <= P ->
  8 / 5 * (x * (P + p) - p * P) - 8 / 5 * (p ^ 2 + x) - 1 / 25 * x <= K.
Proof.
move=> [p0 pP] xE [px xP].
have [u [w [PE pE]]] : exists u w, P = (u + w) / 2 /\ p = (u - w) / 2.
  by exists (P + p), (P - p); lra.
subst P p; have uw : u * w = x by lra.
have w0 : 0 <= w by lra.
have edge : w * (2 * u - 1) <= u by nra.
have w1 : w <= 1 by nra.
have u1 : 9 / 2 <= u by nra.
have w2 : w <= 3 / 5 by nra.
have : 0 <= u ^ 2 * (w ^ 2 / 2 - 8 / 5 * w + 4 / 5) by apply: Rmult_le_pos; nra.
rewrite -uw; nra.
Qed.

Lemma d_paid_four P : 0 <= P -> P ^ 2 + 2 * P <= 2 * x <= P ^ 2 + 4 * P ->
  - (4 / 5) * P ^ 3 + 11 / 25 * P ^ 2 + 8 / 5 * x * P <= K.
Proof.
move=> P0 [Px xP]; case: (Rle_lt_dec P (43 / 20)) => P1.
- have rise : 0 <= (x - 9 / 2) * ((x + 9 / 2) / 2 - 8 / 5 * P) by apply: Rmult_le_pos; lra.
  have : 0 <= (P - 39 / 20) ^ 2 * (4 / 5 * P + 2).
    by apply: Rmult_le_pos; [exact: pow2_ge_0 | lra].
  nra.
- have : 0 <= (x - 8 / 5 * P) ^ 2 by exact: pow2_ge_0.
  have : 0 <= P ^ 2 * (P - 43 / 20) by apply: Rmult_le_pos; nra.
  lra.
Qed.

Lemma d_free_four P : 0 <= P -> P ^ 2 <= x ->
  - (31 / 25) * P ^ 2 + 8 / 5 * x * P <= K.
Proof.
move=> P0 Px; have far : 2 * P <= x.
  by have : 9 / 2 * P ^ 2 <= x ^ 2 by [nra]; nra.
have : 0 <= (x - 2 * P) * P by apply: Rmult_le_pos; lra.
nra.
Qed.

Lemma d_full_four P : 0 <= P -> x <= P ^ 2 -> P ^ 2 + 2 * P <= 3 * x <= P ^ 2 + 4 * P ->
  - (4 / 5) * P ^ 3 + 11 / 25 * P ^ 2 + 12 / 5 * x * P - 42 / 25 * x <= K.
Proof.
move=> P0 xP2 [Px xP]; case: (Rle_lt_dec P (23 / 10)) => P1.
- have rise : 0 <= (x - 9 / 2) * ((x + 9 / 2) / 2 - 12 / 5 * P + 42 / 25).
    by apply: Rmult_le_pos; lra.
  have : 0 <= (P - 23 / 10) ^ 2 * (4 / 5 * P + 3).
    by apply: Rmult_le_pos; [exact: pow2_ge_0 | lra].
  nra.
- have : 0 <= (x - 12 / 5 * P + 42 / 25) ^ 2 by exact: pow2_ge_0.
  have : 0 <= P ^ 2 * (P - 23 / 10) by apply: Rmult_le_pos; nra.
  nra.
Qed.

Lemma d_mixed_four P p : 0 <= p <= P -> P ^ 2 - p ^ 2 = x -> P + p <= x -> x / 2 <= P ->
  2 * P ^ 2 + 8 / 5 * ((x - P) * (P + p) - p * P) - 8 / 5 * (p ^ 2 + x) - 1 / 25 * x <= K.
Proof.
move=> [p0 pP] xE ux xP.
have [u [w [PE pE]]] : exists u w, P = (u + w) / 2 /\ p = (u - w) / 2.
  by exists (P + p), (P - p); lra.
subst P p; have uw : u * w = x by lra.
have wu : w <= u by lra.
have u0 : 0 < u by nra.
have w1 : 1 <= w by nra.
have edge : u * (w - 1) <= w by nra.
pose a := (w - 1) * (w - 11 / 5) / 2.
suff D0 : - a * u ^ 2 + (- (16 / 25) * w) * u + w ^ 2 / 2 <= 0.
  by move: D0; rewrite -uw /a; nra.
case: (Rle_lt_dec (11 / 5) w) => w2.
  have : 0 <= a * u ^ 2.
    by apply: Rmult_le_pos; [rewrite /a; nra | exact: pow2_ge_0].
  nra.
case: (Req_dec w 1) => w3.
  by rewrite /a w3; nra.
have a_le0 : 0 <= - a by rewrite /a; nra.
have last : let v := w / (w - 1) in - a * v ^ 2 + (- (16 / 25) * w) * v + w ^ 2 / 2 <= 0.
  move=> v; have -> : - a * v ^ 2 + (- (16 / 25) * w) * v + w ^ 2 / 2
      = - (1 / 25) * (w * v) by rewrite /a /v; field; lra.
  have : 0 <= v by rewrite /v; apply/Rlt_le/Rdiv_lt_0_compat; lra.
  nra.
have u_le : u <= w / (w - 1).
  by apply: (Rmult_le_reg_r (w - 1)); [lra | rewrite /Rdiv Rmult_assoc Rinv_l; lra].
case: (Rle_lt_dec (w ^ 2) (9 / 2)) => w4.
- apply: (convex_between _ _ _ 0 (9 / 2 / w) (w / (w - 1))) => //; last first.
    have -> : - a * (9 / 2 / w) ^ 2 + - (16 / 25) * w * (9 / 2 / w) + w ^ 2 / 2
      = - (- w ^ 4 / 2 + 2601 / 200 * w ^ 2 - 162 / 5 * w + 891 / 40) / w ^ 2.
      by rewrite /a; field; lra.
    have pos : 0 <= - w ^ 4 / 2 + 2601 / 200 * w ^ 2 - 162 / 5 * w + 891 / 40.
      have : 0 <= (w - 3 / 2) ^ 2 * (- w ^ 2 / 2 - 3 / 2 * w + 963 / 100).
        by apply: Rmult_le_pos; [exact: pow2_ge_0 | nra].
      by lra.
    have : 0 < / w ^ 2 by apply: Rinv_0_lt_compat; nra.
    by rewrite /Rdiv; nra.
  split=> //; apply: (Rmult_le_reg_r w); first by lra.
  by rewrite /Rdiv Rmult_assoc Rinv_l; lra.
- apply: (convex_between _ _ _ 0 w (w / (w - 1))) => //.
  have w5 : 2 <= w by nra.
  have : - (3 / 25) <= a by rewrite /a; nra.
  nra.
Qed.

Theorem cap_recompute_four E F P p a y g f :
  0 <= p <= P -> 0 <= a -> 0 <= y <= x -> P ^ 2 = p ^ 2 + a + y -> p <= g -> 0 <= f ->
  2 * g + 2 * f + a <= 2 * x ->
  E <= P ^ 2 -> E <= g * (P + p) - p * P -> F <= P ^ 2 -> F <= f * P ->
  8 / 5 * E + 2 * F - 8 / 5 * (y + p ^ 2) + 1 / 25 * (a - y) <= K.
Proof.
move=> pP a_ge0 y0x PE pg f0 sum EP Eg FP Ff.
have := cap_recompute x (2 * x) 0 (8 / 5) (1 / 25) K.
rewrite !Rplus_0_l !Rminus_0_r.
move=> h; apply: (h _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ E F P p a y g f) => // {h}; try lra.
- by move=> Q Q0 QT; nra.
- by nra.
- by nra.
- by move=> Q _; have := pow2_ge_0 (x - 2 * Q); lra.
- by move=> Q Q0 QT; have := a_paid_four Q Q0 QT; lra.
- by move=> Q Qx; nra.
- by move=> Q Q0 _ QT; have := a_full_four Q Q0 ltac:(lra); lra.
- by move=> Q q Qq xE xQ qx; have := a_mixed_four Q q Qq xE ltac:(lra) ltac:(lra); lra.
- by move=> Q Q0 QT; have := b_face_four Q Q0 QT; lra.
- by move=> Q Q0 QT; have := c_paid_four Q Q0 QT; lra.
- by move=> Q Qx; nra.
- by move=> Q Q0 _ QT; have := c_full_four Q Q0 ltac:(lra); lra.
- by move=> Q q Qq xE xQ; have := c_mixed_four Q q Qq xE ltac:(lra); lra.
- by move=> Q Q0 QT; have := d_paid_four Q Q0 QT; lra.
- by move=> Q [Q0 _] QT; have := d_free_four Q ltac:(lra) QT; lra.
- by move=> Q Q0 xQ QT; have := d_full_four Q Q0 xQ ltac:(lra); lra.
- by move=> Q q Qq xE xQ Qx; have := d_mixed_four Q q Qq xE ltac:(lra) ltac:(lra); lra.
Qed.

End Four.

(* The same in words, pairs and products; G and H are the mean widths of the
   columns of Q and K, and of V and O, all columns together. *)
Theorem cap_recompute_words d M E F P p a y G H :
  0 < d -> 9 / 2 * d ^ 2 <= M ->
  0 <= p <= P -> 0 <= a -> 0 <= y <= M -> P ^ 2 = p ^ 2 + a + y ->
  d * p <= G -> 0 <= H -> 2 * G + 2 * H + a <= 2 * M ->
  E <= d * P ^ 2 -> E <= G * (P + p) - d * p * P -> F <= d * P ^ 2 -> F <= H * P ->
  80 * d * E + 100 * d * F - 80 * d ^ 2 * (y + p ^ 2) + 2 * d ^ 2 * (a - y) <= 25 * M ^ 2.
Proof.
move=> d0 xM [p0 pP] a0 [y0 yM] PE pG H0 GM EP EG FP FH.
have d2 : 0 < d ^ 2 by nra.
have d3 : 0 < d ^ 3 by nra.
have d4 : 0 < d ^ 4 by nra.
have xM' : 9 / 2 <= M / d ^ 2.
  by have := div_le _ _ _ d2 xM; rewrite (_ : 9 / 2 * d ^ 2 / d ^ 2 = 9 / 2) //; field; lra.
have := cap_recompute_four (M / d ^ 2) xM' (E / d ^ 3) (F / d ^ 3) (P / d) (p / d)
  (a / d ^ 2) (y / d ^ 2) (G / d ^ 2) (H / d ^ 2).
have E1 : (P / d) ^ 2 = (p / d) ^ 2 + a / d ^ 2 + y / d ^ 2.
  have -> : (P / d) ^ 2 = P ^ 2 / d ^ 2 by field; lra.
  by rewrite PE; field; lra.
have E2 : p / d <= G / d ^ 2.
  have -> : p / d = d * p / d ^ 2 by field; lra.
  exact: div_le.
have E3 : 2 * (G / d ^ 2) + 2 * (H / d ^ 2) + a / d ^ 2 <= 2 * (M / d ^ 2).
  have -> : 2 * (G / d ^ 2) + 2 * (H / d ^ 2) + a / d ^ 2 = (2 * G + 2 * H + a) / d ^ 2.
    by field; lra.
  have -> : 2 * (M / d ^ 2) = 2 * M / d ^ 2 by field; lra.
  exact: div_le.
have P3 : (P / d) ^ 2 = d * P ^ 2 / d ^ 3 by field; lra.
have E4 : E / d ^ 3 <= (P / d) ^ 2 by rewrite P3; exact: div_le.
have F4 : F / d ^ 3 <= (P / d) ^ 2 by rewrite P3; exact: div_le.
have E5 : E / d ^ 3 <= G / d ^ 2 * (P / d + p / d) - p / d * (P / d).
  have -> : G / d ^ 2 * (P / d + p / d) - p / d * (P / d) = (G * (P + p) - d * p * P) / d ^ 3.
    by field; lra.
  exact: div_le.
have F5 : F / d ^ 3 <= H / d ^ 2 * (P / d).
  have -> : H / d ^ 2 * (P / d) = H * P / d ^ 3 by field; lra.
  exact: div_le.
move=> /(_ (conj (div_ge0 _ _ d0 p0) (div_le _ _ _ d0 pP)) (div_ge0 _ _ d2 a0)
  (conj (div_ge0 _ _ d2 y0) (div_le _ _ _ d2 yM)) E1 E2 (div_ge0 _ _ d2 H0) E3 E4 E5 F4 F5).
move/(Rmult_le_compat_l (50 * d ^ 4)) => /(_ ltac:(lra)).
have -> : 50 * d ^ 4 * (8 / 5 * (E / d ^ 3) + 2 * (F / d ^ 3)
    - 8 / 5 * (y / d ^ 2 + (p / d) ^ 2) + 1 / 25 * (a / d ^ 2 - y / d ^ 2))
  = 80 * d * E + 100 * d * F - 80 * d ^ 2 * (y + p ^ 2) + 2 * d ^ 2 * (a - y) by field; lra.
by have -> : 50 * d ^ 4 * ((M / d ^ 2) ^ 2 / 2) = 25 * M ^ 2 by field; lra.
Qed.
