(* A convex quadratic on an interval is largest at one of its ends.

   This is how proofs/constant_tight.md, section 5, moves along a line: the
   point goes either way until a constraint holds with equality, and a function
   that is convex on the line is at most its larger value there
   (quadratic_at_ends, convex_at_ends). *)

From Coq Require Import Reals Lra Psatz List.
From Coq Require Import ssreflect ssrbool.
Import ListNotations.

Local Open Scope R_scope.

(* Between its ends a convex quadratic is at most the larger end value. *)
Lemma convex_between A B D K lo hi w :
  0 <= A -> lo <= w <= hi ->
  A * lo ^ 2 + B * lo + D <= K -> A * hi ^ 2 + B * hi + D <= K ->
  A * w ^ 2 + B * w + D <= K.
Proof.
move=> A0 [low whi] Klo Khi.
case: (Req_dec lo hi) => [lohi|lohi].
  by have -> : w = lo by lra.
have pos : 0 < hi - lo by lra.
apply: (Rmult_le_reg_l (hi - lo)) => //.
have chord : (hi - lo) * (A * w ^ 2 + B * w + D) =
    (hi - w) * (A * lo ^ 2 + B * lo + D) + (w - lo) * (A * hi ^ 2 + B * hi + D)
    - A * (hi - w) * (w - lo) * (hi - lo) by ring.
have dip : 0 <= A * (hi - w) * (w - lo) * (hi - lo).
  by do !apply: Rmult_le_pos; lra.
rewrite chord; nra.
Qed.

(* cs lists continuous functions that are to be >= 0. Along a line the point
   moves until one of them is 0. *)
Fixpoint all_ge0 (cs : list (R -> R)) (w : R) : Prop :=
  if cs is c :: cs' then 0 <= c w /\ all_ge0 cs' w else True.

Fixpoint some_0 (cs : list (R -> R)) (w : R) : Prop :=
  if cs is c :: cs' then c w = 0 \/ some_0 cs' w else False.

Fixpoint all_continuous (cs : list (R -> R)) : Prop :=
  if cs is c :: cs' then continuity c /\ all_continuous cs' else True.

(* A continuous function keeps its sign near a point. *)
Lemma near_sign c s : continuity c -> c s <> 0 ->
  exists e, 0 < e /\ forall z, Rabs (z - s) < e -> 0 < c z * c s.
Proof.
move=> cont cs0; have a0 : 0 < Rabs (c s) by exact: Rabs_pos_lt.
have [e [e0 he]] := cont s (Rabs (c s)) a0.
exists e; split=> // z ze; case: (Req_dec s z) => [<-|sz]; first by nra.
have := he z (conj (conj I sz) ze).
rewrite /= /R_dist => /Rabs_def2 [up down].
move: up down; case: (Rcase_abs (c s)) => sgn.
- by rewrite Rabs_left // => up down; nra.
- by rewrite Rabs_right // => up down; nra.
Qed.

Lemma last_zero c lo w : continuity c -> lo <= w -> 0 <= c w ->
  exists z, [/\ lo <= z <= w, c z = 0 \/ z = lo & forall v, z <= v <= w -> 0 <= c v].
Proof.
move=> cont lw cw.
pose S v := lo <= v <= w /\ (c v <= 0 \/ v = lo).
have Slo : S lo by split; [lra | right].
have [s [ub least]] := completeness S (ex_intro _ w (fun v h => proj2 (proj1 h)))
  (ex_intro _ lo Slo).
have los : lo <= s by exact: ub.
have sw : s <= w by apply: least => v [[]].
have above v : s < v <= w -> 0 <= c v.
  move=> [sv vw]; case: (Rle_lt_dec 0 (c v)) => // cv.
  by have := ub v (conj (conj (Rle_trans _ _ _ los (Rlt_le _ _ sv)) vw) (or_introl (Rlt_le _ _ cv)));
    lra.
have cs_pos : 0 <= c s.
  case: (Rle_lt_dec 0 (c s)) => // neg.
  have [e [e0 he]] := near_sign c s cont ltac:(lra).
  case: (Req_dec s w) => [sw'|sw']; first by rewrite sw' in neg; lra.
  pose v := Rmin w (s + e / 2).
  have v1 : v <= w := Rmin_l _ _.
  have v2 : v <= s + e / 2 := Rmin_r _ _.
  have v3 : s < v by apply: Rmin_glb_lt; lra.
  have := he v ltac:(rewrite Rabs_right; lra); have := above v ltac:(lra).
  by nra.
exists s; split=> //.
- case: (Req_dec (c s) 0) => [|cs0]; [by left | right].
  case: (Req_dec s lo) => // slo; exfalso.
  have [e [e0 he]] := near_sign c s cont cs0.
  suff : s <= Rmax lo (s - e / 2).
    by apply: Rlt_not_le; apply: Rmax_lub_lt; lra.
  apply: least => v Sv; have vs := ub v Sv; case: Sv => [[lov vw] [cv|->]].
  + apply: Rle_trans (Rmax_r _ _); case: (Rle_lt_dec v (s - e / 2)) => // near.
    have := he v ltac:(rewrite Rabs_left1; lra); have : 0 < c s by lra.
    by nra.
  + exact: Rmax_l.
- by move=> v [sv vw]; case: (Req_dec s v) => [<- //|sv']; apply: above; lra.
Qed.

Lemma lower_end_continuous cs lo w : all_continuous cs -> lo <= w -> all_ge0 cs w ->
  exists z, [/\ lo <= z <= w, some_0 cs z \/ z = lo
    & forall v, z <= v <= w -> all_ge0 cs v].
Proof.
move=> + lw; elim: cs => [|c cs IH] /=.
  by move=> _ _; exists lo; split; [lra | right | ].
move=> [cc ccs] [cw csw].
have [z1 [b1 t1 h1]] := last_zero c lo w cc lw cw.
have [z2 [b2 t2 h2]] := IH ccs csw.
case: (Rle_lt_dec z1 z2) => z12.
- exists z2; split=> //; first by tauto.
  by move=> v vb; split; [apply: h1; lra | apply: h2].
- exists z1; split=> //; first by tauto.
  by move=> v vb; split; [apply: h1 | apply: h2; lra].
Qed.

Lemma mirror_continuous cs : all_continuous cs ->
  all_continuous (map (fun c z => c (- z)) cs).
Proof.
elim: cs => //= c cs IH [cc ccs]; split; last exact: IH.
by apply: (continuity_comp Ropp c) => //; apply: continuity_opp; apply: derivable_continuous;
  exact: derivable_id.
Qed.

Lemma mirror_ge0 cs w : all_ge0 (map (fun c z => c (- z)) cs) w <-> all_ge0 cs (- w).
Proof. by elim: cs => //= c cs ->. Qed.

Lemma mirror_0 cs w : some_0 (map (fun c z => c (- z)) cs) w <-> some_0 cs (- w).
Proof. by elim: cs => //= c cs ->. Qed.

(* Below its chords. *)
Definition convex_on (f : R -> R) (lo hi : R) : Prop :=
  forall u v w, lo <= u <= v -> v <= w <= hi ->
  (w - u) * f v <= (w - v) * f u + (v - u) * f w.

Lemma convex_quadratic A B D lo hi : 0 <= A -> convex_on (fun z => A * z ^ 2 + B * z + D) lo hi.
Proof.
move=> A0 u v w [_ uv] [vw _].
have : 0 <= A * ((w - v) * (v - u) * (w - u)) by do !apply: Rmult_le_pos; lra.
lra.
Qed.

Lemma convex_at_ends (f : R -> R) K cs lo hi w :
  convex_on f lo hi -> all_continuous cs -> lo <= w <= hi -> all_ge0 cs w ->
  (forall z, lo <= z <= hi -> all_ge0 cs z -> some_0 cs z \/ z = lo \/ z = hi -> f z <= K) ->
  f w <= K.
Proof.
move=> conv cont [low whi] hw ends.
have [z1 [b1 t1 h1]] := lower_end_continuous cs lo w cont low hw.
have hm : all_ge0 (map (fun c z => c (- z)) cs) (- w).
  by apply/mirror_ge0; rewrite Ropp_involutive.
have [z2 [b2 t2 h2]] := lower_end_continuous _ (- hi) (- w) (mirror_continuous _ cont)
  ltac:(lra) hm.
have f1 : f z1 <= K by apply: ends; [lra | apply: h1; lra | tauto].
have f2 : f (- z2) <= K.
  apply: ends; [lra | apply/mirror_ge0; apply: h2; lra | ].
  by case: t2 => [/mirror_0|]; [left | right; right; lra].
case: (Req_dec z1 (- z2)) => [zz|zz].
  by have -> : w = z1 by lra.
have := conv z1 w (- z2) ltac:(lra) ltac:(lra).
have : 0 <= (- z2 - w) * (K - f z1) by apply: Rmult_le_pos; lra.
have : 0 <= (w - z1) * (K - f (- z2)) by apply: Rmult_le_pos; lra.
move=> *; apply: (Rmult_le_reg_l (- z2 - z1)); nra.
Qed.

(* A quadratic is known by its values at -1, 0 and 1. *)
Definition quadratic (f : R -> R) : Prop :=
  forall z, f z = (f 1 + f (-1) - 2 * f 0) / 2 * z ^ 2 + (f 1 - f (-1)) / 2 * z + f 0.

Lemma quadratic_at_ends (f : R -> R) K cs lo hi w :
  quadratic f -> 0 <= f 1 + f (-1) - 2 * f 0 -> all_continuous cs ->
  lo <= w <= hi -> all_ge0 cs w ->
  (forall z, lo <= z <= hi -> all_ge0 cs z -> some_0 cs z \/ z = lo \/ z = hi -> f z <= K) ->
  f w <= K.
Proof.
move=> quad curve cont bw hw ends.
apply: (convex_at_ends f K cs lo hi w) => //.
move=> u v z uv vz; rewrite (quad u) (quad v) (quad z).
by apply: (convex_quadratic _ _ _ lo hi) => //; lra.
Qed.

(* The curve w = z / u - 2 is convex, and so is its square while w >= 0. *)
Lemma convex_square_of_inverse z lo hi : 0 < lo -> 0 <= z -> 2 * hi <= z ->
  convex_on (fun u => (z / u - 2) ^ 2) lo hi.
Proof.
move=> lo0 z0 zhi u v w [lou uv] [vw whi].
case: (Req_dec u w) => [uw|uw].
  have -> : v = u by lra.
  have -> : w = u by lra.
  by lra.
have pos t : lo <= t <= hi -> 0 <= z / t - 2.
  move=> [lot thi]; have t0 : 0 < t by lra.
  suff : 2 * t <= z / t * t by nra.
  by rewrite /Rdiv Rmult_assoc Rinv_l; lra.
have := pos u ltac:(lra); have := pos v ltac:(lra); have := pos w ltac:(lra).
have chord : (w - u) * (z / v - 2) <= (w - v) * (z / u - 2) + (v - u) * (z / w - 2).
  have -> : (w - v) * (z / u - 2) + (v - u) * (z / w - 2) =
      (w - u) * (z / v - 2) + z * ((w - v) * (v - u) * (w - u)) / (u * v * w).
    by field; lra.
  have : 0 <= z * ((w - v) * (v - u) * (w - u)) / (u * v * w); last by lra.
  apply: Rmult_le_pos; first by do !apply: Rmult_le_pos; lra.
  by apply/Rlt_le/Rinv_0_lt_compat; do !apply: Rmult_lt_0_compat; lra.
move: chord; set X := z / u - 2; set Y := z / v - 2; set Z := z / w - 2.
move=> chord Z0 Y0 X0; apply: (Rmult_le_reg_l (w - u)); first by lra.
have sq : ((w - u) * Y) ^ 2 <= ((w - v) * X + (v - u) * Z) ^ 2.
  by apply: pow_incr; split=> //; apply: Rmult_le_pos; lra.
have : 0 <= (w - v) * (v - u) * (X - Z) ^ 2.
  by apply: Rmult_le_pos; [apply: Rmult_le_pos; lra | exact: pow2_ge_0].
nra.
Qed.

(* Scaling by a positive number. *)
Lemma div_ge0 z e : 0 < e -> 0 <= z -> 0 <= z / e.
Proof. by move=> e0 z0; apply: Rmult_le_pos => //; apply/Rlt_le/Rinv_0_lt_compat. Qed.

Lemma div_le z z' e : 0 < e -> z <= z' -> z / e <= z' / e.
Proof. by move=> e0 zz; apply: Rmult_le_compat_r => //; apply/Rlt_le/Rinv_0_lt_compat. Qed.
