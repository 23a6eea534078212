(** * The matrix product in the four classes: sums by trees, and recomputation

    2 m n k / sqrt M - M again, for all four classes of [classes.v]: the
    partial sums of an entry may be many, stored, forgotten and made again, and
    results may take the place of operands.  Each product is counted where a term
    is made that is in fast memory until it is written; there a word of the entry
    is paid for ([stays.v]).  So Lemma 4 of [proofs/matmul_tight.md], by which one
    accumulator an entry is enough, is not needed. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments classes stays product.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section ProductClasses.
Variables (m n k M : nat) (c : class) (ops : seq (move mword_eqType mproduct_eqType)).
Hypothesis ok : attains c M (matrix_product m n k) ops.
Hypothesis M_gt0 : 0 < M.

Local Notation t := (matrix_product m n k).
Local Notation o0 := (@Free mword_eqType mproduct_eqType (Input _ (A 0 0))).
Local Notation lasting := (lasting c M t ops o0).

(** Where a product is counted. *)
Definition place p := find (lasting p) (iota 0 (size ops)).

Lemma placeP p : p \in products t -> place p < size ops /\ lasting p (place p).
Proof.
move=> pin; have [out inp] := sum_output pin.
have [|j ltj last] := @lasts _ _ _ _ _ _ o0 ok p.
  have /hasP[v vin wv] := all_out ok out; apply/hasP; exists v => //.
  have : sound c M t ops (size ops) v by apply: (sound_all o0 ok) => //; rewrite mem_cat vin orbT.
  case: v wv {vin} => [w /eqP->|[w T] /andP[_ /allP/(_ p pin)]]; last by rewrite eqxx.
  by rewrite /= (negPf inp).
have hasp : has (lasting p) (iota 0 (size ops)) by apply/hasP; exists j; rewrite ?mem_iota.
have lt : place p < size ops by rewrite /place -{2}(size_iota 0 (size ops)) -has_find.
by split=> //; have := nth_find 0 hasp; rewrite nth_iota.
Qed.

Lemma words_paid X s e w : {subset X <= products t} ->
  {in X, forall p, s <= place p < e} -> e <= size ops -> w \in words X ->
  paid c M t ops o0 s e w.
Proof.
move=> sub inse le /(wordsP m n k)[p pX]; have /andP[sp pe] := inse p pX.
have [ltp last] := placeP (sub p pX); case=> [[win no]|->]; last first.
  by apply: (lasting_paid ok last _ le); rewrite sp.
have [/doesP[T [x o]] _] := lastingP last; have [_ _ lin rin _] := op_mul ok ltp o.
apply: (@operand_paid _ _ _ _ _ _ o0 ok _ (place p)) no => //; [by rewrite sp ltnW | exact: ltnW |].
by move: win; rewrite !inE => /orP[]/eqP->; apply: whole_here.
Qed.

Theorem classes_cold : 4 * (m * n * k) ^ 2 <= (traffic ops + M) ^ 2 * M.
Proof.
have S_gt0 : 0 < 2 * M by rewrite muln_gt0.
pose ev := event c M t ops o0; pose seg p := segment M (2 * M) ev (place p).
apply: (@cold _ _ _ _ _ (parts c M t ops o0 (2 * M)) seg).
- apply: (@paid_traffic _ _ _ _ _ _ o0 _ (words_uniq _)) => w.
  by apply: words_paid => // p pin /=; have [] := placeP pin.
- by move=> p /placeP[lt _]; apply: segment_lt.
- move=> i; apply: (paid_segment ok S_gt0 (i := i)) (words_uniq _) _ => w.
  apply: words_paid; [by move=> p; rewrite mem_filter => /andP[] | | exact: border_size].
  by move=> p; rewrite mem_filter => /andP[si /placeP[lt _]]; rewrite -in_segment.
exact: parts_traffic.
Qed.

End ProductClasses.
