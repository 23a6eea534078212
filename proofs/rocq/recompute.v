(** * Attention, all four classes: Lemma 9 and Theorem 4 of [proofs/constant_tight.md]

    Products may be executed any number of times, and partial sums added: of each
    product of the second kind the proof counts one that reaches the output. *)

From Coq Require Import Reals Lra Psatz.
Set Warnings "-notation-overridden".
From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments segment_cap touched classes stays pairs.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** The cap where v, the columns of V, are at most d, from T = 4 d (d + v) on: g and f
    are the mean widths of the products of both kinds, P^2 and p^2 the pairs and
    those of them that are new. *)
Lemma cap_second (d v T L g f P p a : R) :
  (0 < v <= d)%R -> (4 * d * (d + v) <= T)%R -> (0 <= p <= P)%R -> (P ^ 2 = p ^ 2 + a)%R -> (d * p <= g)%R ->
  (2 * g + 2 * f + a <= T)%R -> (L <= v * P ^ 2)%R -> (L <= f * P)%R ->
  (4 * (d + v) ^ 2 * L <= v * T ^ 2)%R.
Proof.
move=> [v0 vd] dT [p0 pP] PE pg words LP Lf; set k := (d + v)%R in dT *.
have k0 : (0 < k)%R by rewrite /k; lra.
have pairs z : (0 <= 2 * k * P <= z)%R -> (z ^ 2 <= T ^ 2)%R -> (4 * k ^ 2 * L <= v * T ^ 2)%R.
  move=> kz zT; have : (4 * k ^ 2 * L <= 4 * k ^ 2 * (v * P ^ 2))%R by apply: Rmult_le_compat_l; nra.
  have : ((2 * k * P) ^ 2 <= T ^ 2)%R by have := pow_incr _ _ 2 kz; lra.
  by move=> /(Rmult_le_compat_l v _ _ ltac:(lra)); lra.
have kP0 : (0 <= 2 * k * P)%R by apply: Rmult_le_pos; lra.
case: (Rle_lt_dec (2 * k * P) T) => many; first by apply: (pairs T); lra.
have d0 : (0 < d)%R by lra.
case: (Rle_lt_dec P (2 * d)) => wide.
  have : (2 * k * P <= 2 * k * (2 * d))%R by apply: Rmult_le_compat_l; lra.
  by lra.
have edge : (0 <= (P - p) * (P + p - 2 * d))%R by apply: Rmult_le_pos; lra.
have fE : (2 * f <= T - 2 * d * P)%R by nra.
have fP : (2 * f * P <= (T - 2 * d * P) * P)%R by apply: Rmult_le_compat_r; lra.
have : (4 * k ^ 2 * L <= 2 * k ^ 2 * ((T - 2 * d * P) * P))%R.
  have : (k ^ 2 * (2 * L) <= k ^ 2 * ((T - 2 * d * P) * P))%R by apply: Rmult_le_compat_l; nra.
  by lra.
have : (0 <= (2 * k * P - T) * (d * (2 * k * P) - v * T))%R.
  apply: Rmult_le_pos; first by lra.
  have T0 : (0 <= T)%R by apply: Rle_trans dT; apply: Rmult_le_pos; lra.
  have : (v * T <= d * T)%R by apply: Rmult_le_compat_r; lra.
  have : (d * T <= d * (2 * k * P))%R by apply: Rmult_le_compat_l; lra.
  by lra.
rewrite /k; lra.
Qed.

(** The cap where they are at least d: T^2 / 16 d, as at v = d. *)
Lemma cap_second_wide (d v T L g f P p a : R) :
  (0 < d <= v)%R -> (4 * d * (d + v) <= T)%R -> (0 <= p <= P)%R -> (P ^ 2 = p ^ 2 + a)%R -> (d * p <= g)%R ->
  (2 * g + 2 * f + a <= T)%R -> (L <= v * P ^ 2)%R -> (L <= f * P)%R -> (16 * d * L <= T ^ 2)%R.
Proof.
move=> [d0 dv] dT [p0 pP] PE pg words LP Lf.
case: (Rle_lt_dec P (2 * d)) => wide.
  have P2 : (P ^ 2 <= (2 * d) ^ 2)%R by apply: pow_incr; lra.
  have : (L <= v * (2 * d) ^ 2)%R.
    by apply: Rle_trans LP _; apply: Rmult_le_compat_l; lra.
  move=> /(Rmult_le_compat_l (16 * d) _ _ ltac:(lra)) low.
  have : ((4 * d * (d + v)) ^ 2 <= T ^ 2)%R by apply: pow_incr; split=> //; do !apply: Rmult_le_pos; lra.
  have : (0 <= d ^ 2 * (v - d) ^ 2)%R by apply: Rmult_le_pos; exact: pow2_ge_0.
  by lra.
have edge : (0 <= (P - p) * (P + p - 2 * d))%R by apply: Rmult_le_pos; lra.
have fE : (2 * f <= T - 2 * d * P)%R by nra.
have : (2 * f * P <= (T - 2 * d * P) * P)%R by apply: Rmult_le_compat_r; lra.
have : (2 * L <= 2 * f * P)%R by lra.
move=> low high; have : (16 * d * L <= 8 * d * ((T - 2 * d * P) * P))%R.
  have : (8 * d * (2 * L) <= 8 * d * ((T - 2 * d * P) * P))%R by apply: Rmult_le_compat_l; lra.
  by lra.
have := pow2_ge_0 (T - 4 * d * P); lra.
Qed.

(** What is lost where v is larger than d: (d + v)^2 - (v - d)^2 = 4 d v. *)
Definition widths d v := (d + v) ^ 2 - (v - d) ^ 2.

Lemma widths_narrow d v : v <= d -> widths d v = (d + v) ^ 2.
Proof. by rewrite -subn_eq0 /widths => /eqP->; rewrite subn0. Qed.

Lemma widths_wide d v : d <= v -> widths d v = 4 * d * v.
Proof.
move=> le; rewrite /widths -(subnKC le) addKn; move: (v - d) => x.
have -> : (d + (d + x)) ^ 2 = 4 * d * (d + x) + x ^ 2 by rewrite !(expnS, expn0, muln1); ring.
exact: addnK.
Qed.

Lemma widths_le d v : widths d v <= (d + v) ^ 2.
Proof. exact: leq_subr. Qed.

(** One segment, over the natural numbers. *)
Lemma segment_cap_second (d dv M : nat) (q k : 'I_d -> nat) (F o v : 'I_dv -> nat) (I J C a : nat) :
  0 < d -> 0 < dv -> 2 * d * (d + dv) <= M ->
  (forall b, I <= q b) -> (forall b, J <= k b) -> C <= I * J ->
  (forall l, F l <= C + a) -> (forall l, F l <= o l * v l) ->
  \sum_b q b + \sum_b k b + \sum_l v l + \sum_l o l + a <= 2 * M ->
  widths d dv * (\sum_l F l) <= dv * M ^ 2.
Proof.
move=> d0 v0 dM Iq Jk CIJ Fn Fov words.
have Cn : C <= C + a by rewrite leq_addr.
have none (f : 'I_dv -> nat) b : 0 <= f b by [].
have [_ _ E3] := products_bound Cn (fun=> leq0n _) (fun=> leq0n _) Iq Jk CIJ.
have [F1 F2 _] := products_bound (leq0n _) Fn Fov (none o) (none v) (leq0n (0 * 0)).
rewrite (sqrt_0 : sqrt (INR 0) = 0%R) in F2.
set P := sqrt (INR (C + a)) in F1 F2; set p := sqrt (INR C) in E3.
have P2 : (P ^ 2)%R = INR (C + a) by rewrite pow2_sqrt //; exact: pos_INR.
have p2 : (p ^ 2)%R = INR C by rewrite pow2_sqrt //; exact: pos_INR.
have p0 : (0 <= p)%R := sqrt_pos _.
have pP : (p <= P)%R by apply: sqrt_le_1_alt; exact: INR_leq.
have vR : (0 < INR dv)%R by apply: lt_0_INR; apply/ltP.
have dR : (0 < INR d)%R by apply: lt_0_INR; apply/ltP.
have c2 : INR 2 = 2%R by rewrite INR_IZR_INZ.
have c4 : INR 4 = 4%R by rewrite INR_IZR_INZ.
move/INR_leq: words; rewrite !(INRD, INRM) c2 => words.
move/INR_leq: dM; rewrite !(INRD, INRM) c2 => dM.
have PE : (P ^ 2 = p ^ 2 + INR a)%R by rewrite P2 p2 INRD.
pose L := INR (\sum_l F l); pose T := (2 * INR M)%R.
pose g := ((INR (\sum_b q b) + INR (\sum_b k b)) / 2)%R.
pose f := ((INR (\sum_l o l) + INR (\sum_l v l)) / 2)%R.
have dT : (4 * INR d * (INR d + INR dv) <= T)%R by rewrite /T; lra.
have gf : (2 * g + 2 * f + INR a <= T)%R by rewrite /T /g /f; lra.
have Lf : (L <= f * P)%R by rewrite /L /f; lra.
have [vd|/ltnW dv_] := leqP dv d.
  rewrite widths_narrow //; apply: leq_INR; rewrite !(INRM, INR2) INRD.
  have := cap_second (conj vR (INR_leq vd)) dT (conj p0 pP) PE E3 gf F1 Lf.
  by rewrite /T -/L; lra.
rewrite widths_wide // [4 * d * dv]mulnC -mulnA leq_pmul2l //.
apply: leq_INR; rewrite !(INRM, INR2) c4.
have := cap_second_wide (conj dR (INR_leq dv_)) dT (conj p0 pP) PE E3 gf F1 Lf.
by rewrite /T -/L; lra.
Qed.

Section Recompute.
Variables (c : class) (pairs : seq (nat * nat)) (d dv M : nat).
Variable ops : seq (move aword_eqType aproduct_eqType).
Hypothesis pairs_uniq : uniq pairs.
Hypothesis d_gt0 : 0 < d.
Hypothesis dv_gt0 : 0 < dv.
Hypothesis M_gt0 : 0 < M.
Hypothesis ok : attains c M (attention_widths pairs d dv) ops.

Local Notation t := (attention_widths pairs d dv).
Local Notation o0 := (@Free aword_eqType aproduct_eqType (inl (Q 0 0))).
Local Notation n := (size ops).
Local Notation op_ := (op_ ops o0).
Local Notation here := (here c M t ops).
Local Notation event := (event c M t ops o0).
Local Notation paid := (paid c M t ops o0).
Local Notation lasting := (lasting c M t ops o0).
Local Notation rows := (rows pairs).
Local Notation cols := (cols pairs).
Local Notation parts := (parts c M t ops o0 M).
Local Notation border := (border n M M event).
Local Notation segment := (segment M M event).

(** The first time that a product of the second kind is executed and reaches O. *)
Definition posF l ij := find (lasting (prodF l ij)) (iota 0 n).

Lemma posFP ij l : ij \in pairs -> l < dv ->
  [/\ posF l ij < n, does (prodF l ij) (op_ (posF l ij)) & lasting (prodF l ij) (posF l ij)].
Proof.
move=> pin ltl; have [k ltk la] := lasting_F ok pin ltl.
have hs : has (lasting (prodF l ij)) (iota 0 n) by apply/hasP; exists k; rewrite ?mem_iota.
have lt : posF l ij < n by move: hs; rewrite has_find size_iota.
have := nth_find 0 hs; rewrite nth_iota // add0n -/(posF l ij) => l'.
by have [dk _] := lastingP l'.
Qed.

(** The pairs and columns of the products that are executed in segment [i]: of the
    first kind all, of the second those that are counted there. *)
Definition e i b ij := has (fun k => does (prodE b ij) (op_ k) && (segment k == i)) (iota 0 n).
Definition f i l ij := segment (posF l ij) == i.

Definition used i ij := has (fun l => f i l ij) (iota 0 dv).
Definition bought i ij := paid (border i) (border i.+1) (score ij).
Definition visit i ij := used i ij && bought i ij.
Definition inner i ij := used i ij && ~~ bought i ij.

Lemma range_of k i : k < n -> segment k == i -> border i <= k < border i.+1.
Proof. by move=> lt; rewrite (@in_segment n M M event i k lt). Qed.

(** A score that was not there, and not read, is made in the segment. *)
Lemma inner_whole i ij b : ij \in pairs -> inner i ij -> b < d -> e i b ij.
Proof.
move=> pin /andP[/hasP[l]]; rewrite mem_iota => ltl fi /negP nb ltb.
have [ltn dk _] := posFP pin ltl; have /andP[le lt] := range_of ltn fi.
have := @term_entry _ _ _ _ _ _ o0 ok (prodE b ij) (border i) (posF l ij).
rewrite le (ltnW ltn) => /(_ isT (held_E ok ltn dk ltb))[hs|[j /andP[lej ltj] how]].
  case: nb; apply/orP; left.
  exact: (held_here o0 ok (border_size _ _ _ _ _) hs).
have ltjn := ltn_trans ltj ltn; have range : border i <= j < border i.+1 by rewrite lej (ltn_trans ltj).
case: how => [dj|[v ov tv]].
  apply/hasP; exists j; first by rewrite mem_iota.
  by rewrite dj (@in_segment n M M event i j ltjn).
case: nb; apply/paidP; right; exists j => //; apply: (event_read c M t); rewrite ov /=.
rewrite (term_name o0 ok (ltnW ltjn) _ tv) // mem_cat (op_read ok ltjn ov); exact: orbT.
Qed.

Lemma segment_words i :
  \sum_(b < d) size (rows (e i b)) + \sum_(b < d) size (cols (e i b))
    + \sum_(l < dv) size (cols (f i l)) + \sum_(l < dv) size (rows (f i l))
    + count (visit i) pairs <= 2 * M.
Proof.
have := words_size pairs d dv (e i) (f i) [seq ij <- pairs | visit i ij].
rewrite size_filter mul2n -addnn => <-.
apply: (paid_segment ok M_gt0 (i := i)); first by apply/words_uniq/filter_uniq.
move=> w; apply: (touched_paid ok); first exact: border_size.
- move=> b ij pin ltb /hasP[k]; rewrite mem_iota => ltk /andP[dk sk].
  by exists k => //; apply: range_of.
- move=> l ij pin ltl fi; have [ltk _ la] := posFP pin ltl.
  by exists (posF l ij) => //; apply: range_of.
by move=> ij; rewrite mem_filter => /andP[/andP[]].
Qed.

Lemma segment_work i : 2 * d * (d + dv) <= M ->
  widths d dv * (\sum_(l < dv) count (f i l) pairs) <= dv * M ^ 2.
Proof.
move=> large.
apply: (@segment_cap_second d dv M (fun b => size (rows (e i b))) (fun b => size (cols (e i b)))
  (fun l => count (f i l) pairs) (fun l => size (rows (f i l))) (fun l => size (cols (f i l)))
  (size (rows (inner i))) (size (cols (inner i))) (count (inner i) pairs) (count (visit i) pairs)) => //.
- by move=> b; apply: side_sub => ij pin inn; apply: inner_whole (ltn_ord b).
- by move=> b; apply: side_sub => ij pin inn; apply: inner_whole (ltn_ord b).
- exact: box.
- move=> l; rewrite !count_sum -big_split /=; apply: leq_sum => ij _.
  rewrite /inner /visit; have [fi|//] := boolP (f i l ij).
  have -> : used i ij by apply/hasP; exists (val l); rewrite ?mem_iota ?ltn_ord.
  by case: bought.
- by move=> l; apply: box.
exact: segment_words.
Qed.

Theorem recompute_bound : 2 * d * (d + dv) <= M ->
  size pairs * widths d dv <= traffic ops * M.
Proof.
move=> large.
have all : size pairs * dv <= \sum_(i < parts) \sum_(l < dv) count (f i l) pairs.
  apply: (@work_of_parts _ _ dv parts (fun l ij => segment (posF l ij))) => ij l pin ltl.
  by apply: segment_lt; have [] := posFP pin ltl.
have needed : size pairs * widths d dv <= parts * M ^ 2.
  have work : widths d dv * (size pairs * dv)
      <= widths d dv * \sum_(i < parts) \sum_(l < dv) count (f i l) pairs.
    by rewrite leq_mul2l all orbT.
  rewrite -(leq_pmul2l dv_gt0); have -> : dv * (size pairs * widths d dv) = widths d dv * (size pairs * dv).
    by rewrite mulnA mulnC [dv * _]mulnC.
  apply: leq_trans work _.
  rewrite big_distrr /= mulnCA -[parts in _ <= parts * _]card_ord -sum_nat_const.
  by apply: leq_sum => i _; apply: segment_work.
have [one|two] := leqP parts 1; last first.
  apply: leq_trans needed _; rewrite -mulnn mulnA leq_mul2r; apply/orP; right.
  have := parts_traffic (o0 := o0) M_gt0 two; apply: leq_trans.
  by rewrite -mulnS (ltn_predK two) mulnC.
have whole : size pairs * widths d dv <= M ^ 2.
  by apply: leq_trans needed _; rewrite -{2}[M ^ 2]mul1n leq_mul2r one orbT.
have sq : size pairs * widths d dv <= traffic ops ^ 2.
  apply: leq_trans (_ : ((d + dv) * (size (rows predT) + size (cols predT))) ^ 2 <= _); last first.
    by rewrite leq_exp2r // (compulsory dv_gt0 ok).
  have bx : size pairs <= size (rows predT) * size (cols predT).
    by have := box pairs_uniq predT; rewrite count_predT.
  rewrite expnMn mulnC; apply: leq_mul; first exact: widths_le.
  by apply: leq_trans bx _; apply: leq_trans (nat_AGM2 _ _); rewrite leq_pmull.
by rewrite -(leq_exp2r _ _ (isT : 0 < 2)) (expnMn (traffic ops)) -mulnn leq_mul.
Qed.

End Recompute.
