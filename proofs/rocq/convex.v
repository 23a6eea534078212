(* A convex quadratic on an interval is largest at one of its ends.

   This is how proofs/constant_tight.md, section 5, moves along a line: all
   constraints used are affine in w, so that their solutions are an interval of
   w, and a function that is convex in w is largest at one of its ends. The
   interval is given by a list of affine constraints; at an end one of them
   holds with equality. *)

From Coq Require Import Reals Lra Psatz List.
From Coq Require Import ssreflect ssrbool.
Import ListNotations.

Local Open Scope R_scope.

(* The constraint (b, k) says 0 <= b + k * w. *)
Definition affine (c : R * R) (w : R) : R := fst c + snd c * w.

Fixpoint holds (cs : list (R * R)) (w : R) : Prop :=
  if cs is c :: cs' then 0 <= affine c w /\ holds cs' w else True.

Fixpoint tight (cs : list (R * R)) (w : R) : Prop :=
  if cs is c :: cs' then affine c w = 0 \/ tight cs' w else False.

(* Going down from w, either nothing stops us or a constraint becomes tight. *)
Lemma lower_end cs w :
  holds cs w ->
  (forall z, z <= w -> holds cs z) \/
  exists z, [/\ z <= w, tight cs z & forall z', z <= z' <= w -> holds cs z'].
Proof.
elim: cs => [|[b k] cs IH] /=; first by left.
rewrite /affine /= => -[hc hcs].
have := IH hcs; case: (Rle_lt_dec k 0) => k0.
- case=> [free | [z [zw tz hz]]].
  + by left => z zw; split; [nra | exact: free].
  + right; exists z; split=> //; first by right.
    by move=> z' bz'; split; [nra | exact: hz].
- have root : b + k * (- b / k) = 0 by field; lra.
  have kw : - b / k <= w.
    by apply: (Rmult_le_reg_l k) => //; lra.
  case=> [free | [z [zw tz hz]]].
  + right; exists (- b / k); split=> //; first by left.
    by move=> z' bz'; split; [nra | apply: free; lra].
  + right; case: (Rle_lt_dec z (- b / k)) => zk.
    * exists (- b / k); split=> //; first by left.
      by move=> z' bz'; split; [nra | apply: hz; lra].
    * exists z; split=> //; first by right.
      by move=> z' bz'; split; [nra | exact: hz].
Qed.

Definition mirror (c : R * R) : R * R := (fst c, - snd c).

Lemma holds_mirror cs w : holds (map mirror cs) w <-> holds cs (- w).
Proof.
elim: cs => //= c cs ->; rewrite /affine /=.
by have -> : fst c + - snd c * w = fst c + snd c * - w by ring.
Qed.

Lemma tight_mirror cs w : tight (map mirror cs) w <-> tight cs (- w).
Proof.
elim: cs => //= c cs ->; rewrite /affine /=.
by have -> : fst c + - snd c * w = fst c + snd c * - w by ring.
Qed.

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

(* The form in which Lemma 6 uses it: check the points where a constraint is
   tight. *)
Lemma convex_at_ends (f : R -> R) A B D K cs lo hi w :
  0 <= A -> (forall z, f z = A * z ^ 2 + B * z + D) ->
  (forall z, holds cs z -> lo <= z <= hi) ->
  (forall z, holds cs z -> tight cs z -> f z <= K) ->
  holds cs w -> f w <= K.
Proof.
move=> A0 fE bounded ends hw.
have [w1 [w1w t1 h1]] : exists z,
    [/\ z <= w, tight cs z & forall z', z <= z' <= w -> holds cs z'].
  case: (lower_end cs w hw) => // free.
  have := bounded _ (free (Rmin w lo - 1) _).
  have := Rmin_l w lo; have := Rmin_r w lo => r1 r2 h; exfalso.
  by have := h ltac:(lra); lra.
have hm : holds (map mirror cs) (- w) by apply/holds_mirror; rewrite Ropp_involutive.
have [w2 [w2w t2 h2]] : exists z,
    [/\ z <= - w, tight (map mirror cs) z
      & forall z', z <= z' <= - w -> holds (map mirror cs) z'].
  case: (lower_end _ _ hm) => // free.
  have r1 := Rmin_l (- w) (- hi); have r2 := Rmin_r (- w) (- hi).
  have le : Rmin (- w) (- hi) - 1 <= - w by lra.
  by have /holds_mirror/bounded := free _ le; lra.
move/tight_mirror: t2 => t2.
have hw1 : holds cs w1 by apply: h1; lra.
have hw2 : holds cs (- w2) by apply/holds_mirror; apply: h2; lra.
rewrite fE; apply: (convex_between A B D K w1 (- w2)) => //; first lra.
- by rewrite -fE; apply: ends.
- by rewrite -fE; apply: ends.
Qed.
