(** * The words that products of attention touch, and the work of a segment

    The same for a schedule of [model.v] and for one of [classes.v]: nothing is assumed
    about a schedule here. [once.v] and [trees.v] say which visits of a pair to a segment
    are paid; with the cap of a segment ([segment_cap.v]: Lemmas 3 and 6 of
    [proofs/constant_tight.md]) the number of segments follows, Theorem 2. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments segment_cap.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Lemma count_sum (T : Type) (a : pred T) s : count a s = \sum_(x <- s) (a x : nat).
Proof. by elim: s => [|x s IH]; rewrite ?big_nil ?big_cons //= IH. Qed.

Section Touched.
Variables (pairs : seq (nat * nat)) (d dv : nat).
Hypothesis pairs_uniq : uniq pairs.

Local Notation t := (attention_widths pairs d dv).

Definition prodE c (ij : nat * nat) : aproduct_eqType := E ij.1 ij.2 c.
Definition prodF l (ij : nat * nat) : aproduct_eqType := F ij.1 ij.2 l.
Definition score (ij : nat * nat) : aword_eqType := S ij.1 ij.2.

Lemma inE_ ij c : ij \in pairs -> c < d -> prodE c ij \in products t.
Proof.
move=> pin lt; rewrite mem_cat; apply/orP; left; apply/allpairsP.
by exists (ij, c); rewrite mem_iota add0n.
Qed.

Lemma inF_ ij l : ij \in pairs -> l < dv -> prodF l ij \in products t.
Proof.
move=> pin lt; rewrite mem_cat; apply/orP; right; apply/allpairsP.
by exists (ij, l); rewrite mem_iota add0n.
Qed.

Lemma score_input ij : score ij \notin inputs t.
Proof. by rewrite !mem_cat; apply/negP => /or3P[] /allpairsP[? [_ _]]. Qed.

(** ** Distinct rows and columns, and the words that products touch *)

Definition side (f : nat * nat -> nat) (a : pred (nat * nat)) := undup [seq f ij | ij <- pairs & a ij].
Definition rows := side fst.
Definition cols := side snd.

Lemma sideP f (a : pred (nat * nat)) r :
  reflect (exists2 ij, ij \in pairs /\ a ij & r = f ij) (r \in side f a).
Proof.
rewrite mem_undup; apply: (iffP mapP) => -[ij].
  by rewrite mem_filter => /andP[aij pin] ->; exists ij.
by case=> pin aij ->; exists ij => //; rewrite mem_filter aij.
Qed.

Definition rowsP := sideP fst.
Definition colsP := sideP snd.

Lemma side_sub f (a b : pred (nat * nat)) : {in pairs, forall ij, a ij -> b ij} ->
  size (side f a) <= size (side f b).
Proof.
move=> sub; apply: uniq_leq_size; first exact: undup_uniq.
by move=> r /sideP[ij [pin aij] ->]; apply/sideP; exists ij => //; split=> //; apply: sub.
Qed.

Lemma box (a : pred (nat * nat)) : count a pairs <= size (rows a) * size (cols a).
Proof.
rewrite -size_filter -(size_allpairs pair); apply: uniq_leq_size; first exact: filter_uniq.
move=> [i j]; rewrite mem_filter => /andP[aij pin].
by apply: allpairs_f; rewrite mem_undup; apply/mapP; exists (i, j); rewrite // mem_filter aij.
Qed.

(** [e c] and [f l] are the pairs whose products of column [c], or [l], are made;
    [s] are pairs whose score is paid. *)
Definition words (e f : nat -> pred (nat * nat)) (s : seq (nat * nat)) : seq aword_eqType :=
  [seq Q r c | c <- iota 0 d, r <- rows (e c)]
  ++ [seq K r c | c <- iota 0 d, r <- cols (e c)]
  ++ [seq V r l | l <- iota 0 dv, r <- cols (f l)]
  ++ [seq O r l | l <- iota 0 dv, r <- rows (f l)]
  ++ map score s.

Lemma words_uniq e f s : uniq s -> uniq (words e f s).
Proof.
move=> us; rewrite /words.
have un m (g : nat -> seq nat) (h : nat -> nat -> aword_eqType) : (forall c, uniq (g c)) ->
    (forall r c r' c', h r c = h r' c' -> r = r' /\ c = c') ->
    uniq [seq h r c | c <- iota 0 m, r <- g c].
  move=> ug inj; apply: allpairs_uniq_dep => [|c _|]; [exact: iota_uniq | exact: ug |].
  by move=> [c r] [c' r'] _ _ /= /inj[-> ->].
rewrite !cat_uniq !un ?(map_inj_uniq (f := score)) ?us //=;
  try by [move=> [? ?] [? ?] [/= -> ->] | move=> ? ? ? ? [-> ->] | move=> ?; exact: undup_uniq].
rewrite !andbT; apply/and4P; split; apply/hasPn => x; rewrite ?mem_cat.
- by move=> /or4P[|||] => [/allpairsPdep[? [? [_ _ ->]]]|/allpairsPdep[? [? [_ _ ->]]]
    |/allpairsPdep[? [? [_ _ ->]]]|/mapP[? _ ->]]; apply/negP => /allpairsPdep[? [? [_ _]]].
- by move=> /or3P[] => [/allpairsPdep[? [? [_ _ ->]]]
    |/allpairsPdep[? [? [_ _ ->]]]|/mapP[? _ ->]]; apply/negP => /allpairsPdep[? [? [_ _]]].
- by move=> /orP[] => [/allpairsPdep[? [? [_ _ ->]]]|/mapP[? _ ->]];
    apply/negP => /allpairsPdep[? [? [_ _]]].
by move=> /mapP[? _ ->]; apply/negP => /allpairsPdep[? [? [_ _]]].
Qed.

Lemma words_size e f s :
  size (words e f s) = \sum_(c < d) size (rows (e c)) + \sum_(c < d) size (cols (e c))
    + \sum_(l < dv) size (cols (f l)) + \sum_(l < dv) size (rows (f l)) + size s.
Proof.
have sz (T : Type) m (g : nat -> seq nat) (h : nat -> nat -> T) :
    size [seq h r c | c <- iota 0 m, r <- g c] = \sum_(c < m) size (g c).
  by rewrite size_allpairs_dep sumnE big_map -(big_mkord xpredT (fun c => size (g c))) /index_iota subn0.
by rewrite !size_cat !sz size_map !addnA.
Qed.

(** ** Segments

    Product [c] of a pair's first kind is in segment [segE c ij], product [l] of its
    second kind in [segF l ij]. *)

Variables segE segF : nat -> nat * nat -> nat.

Definition segs ij := [seq segE c ij | c <- iota 0 d] ++ [seq segF l ij | l <- iota 0 dv].

Lemma segE_in ij c : c < d -> segE c ij \in segs ij.
Proof. by move=> lt; rewrite mem_cat; apply/orP; left; apply: map_f; rewrite mem_iota. Qed.

Lemma segF_in ij l : l < dv -> segF l ij \in segs ij.
Proof.
by move=> lt; rewrite mem_cat; apply/orP; right; apply/mapP; exists l; rewrite ?mem_iota.
Qed.

(** There are [parts] segments, and three kinds of visits of a pair to one. A pair that
    is [inner] has all its products there; where it has some, its visit is of a kind. *)
Variables (M parts : nat) (inner visit fresh : nat -> pred (nat * nat)).
Hypothesis d_gt0 : 0 < d.
Hypothesis segs_lt : forall ij i, ij \in pairs -> i \in segs ij -> i < parts.
Hypothesis inner_all : forall i ij x, ij \in pairs -> inner i ij -> x \in segs ij -> x == i.
Hypothesis visits : forall i ij, ij \in pairs -> i \in segs ij ->
  [|| inner i ij, visit i ij | fresh i ij].

Local Notation e i := (fun c ij => segE c ij == i).
Local Notation f i := (fun l ij => segF l ij == i).

Hypothesis fresh_size : forall i, count (fresh i) pairs <= M.
Hypothesis segment_words : forall i,
  \sum_(c < d) size (rows (e i c)) + \sum_(c < d) size (cols (e i c))
    + \sum_(l < dv) size (cols (f i l)) + \sum_(l < dv) size (rows (f i l))
    + count (visit i) pairs <= 2 * M.

Lemma leq_visits i (g : nat * nat -> nat) : {in pairs, forall ij, g ij \in segs ij} ->
  count (fun ij => g ij == i) pairs
    <= count (inner i) pairs + count (visit i) pairs + count (fresh i) pairs.
Proof.
move=> gin; rewrite !count_sum -!big_split /= big_seq [X in _ <= X]big_seq.
apply: leq_sum => ij pin; case: eqP => // gi; have := visits (i := i) pin.
rewrite -{1}gi gin // => /(_ isT).
by case: (inner i ij); case: (visit i ij); case: (fresh i ij).
Qed.

Lemma segment_work i : 5 * (d + dv) ^ 2 <= 8 * M ->
  200 * (d + dv) * (\sum_(c < d) count (e i c) pairs + \sum_(l < dv) count (f i l) pairs)
    + 36 * (d + dv) ^ 2 * count (visit i) pairs
  <= 189 * M ^ 2 + 11 * (d + dv) ^ 2 * (count (fresh i) pairs + count (inner i) pairs)
    + 36 * (d + dv) ^ 2 * count (fresh i) pairs.
Proof.
move=> large.
have subE (c : 'I_d) : {in pairs, forall ij, inner i ij -> e i c ij}.
  by move=> ij pin inn; apply: inner_all inn (segE_in _ (ltn_ord c)).
have subF (l : 'I_dv) : {in pairs, forall ij, inner i ij -> f i l ij}.
  by move=> ij pin inn; apply: inner_all inn (segF_in _ (ltn_ord l)).
apply: (@segment_cap_widths d dv M (fun c => count (e i c) pairs) (fun c => size (rows (e i c)))
  (fun c => size (cols (e i c))) (fun l => count (f i l) pairs)
  (fun l => size (rows (f i l))) (fun l => size (cols (f i l)))
  (size (rows (inner i))) (size (cols (inner i)))) => //.
- by rewrite addn_gt0 d_gt0.
- by move=> c; apply: leq_visits => ij _; apply: segE_in.
- by move=> c; apply: box.
- by move=> c; apply/side_sub/subE.
- by move=> c; apply/side_sub/subE.
- by move=> l; apply: leq_visits => ij _; apply: segF_in.
- by move=> l; apply: box.
- by move=> l; apply/side_sub/subF.
- by move=> l; apply/side_sub/subF.
exact: box.
Qed.

Theorem parts_needed :
  \sum_(i < parts) (count (fresh i) pairs + count (inner i) pairs) <= size pairs ->
  \sum_(i < parts) count (fresh i) pairs <= \sum_(i < parts) count (visit i) pairs ->
  5 * (d + dv) ^ 2 <= 8 * M -> size pairs * (d + dv) ^ 2 <= parts * M ^ 2.
Proof.
move=> once paid large.
apply: segments_needed_widths (fun i : 'I_parts => segment_work i large) _ _ once paid.
  by apply: work_of_parts => ij c pin ltc; apply: segs_lt (segE_in _ ltc).
by apply: work_of_parts => ij l pin ltl; apply: segs_lt (segF_in _ ltl).
Qed.

End Touched.
