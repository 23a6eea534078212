(** * Attention in the classes of [classes.v]: what holds in all of them *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments touched classes stays.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Attention.
Variables (c : class) (pairs : seq (nat * nat)) (d dv M : nat).
Variable ops : seq (move aword_eqType aproduct_eqType).
Hypothesis pairs_uniq : uniq pairs.
Hypothesis dv_gt0 : 0 < dv.
Hypothesis ok : attains c M (attention_widths pairs d dv) ops.

Local Notation t := (attention_widths pairs d dv).
Local Notation o0 := (@Free aword_eqType aproduct_eqType (inl (Q 0 0))).
Local Notation n := (size ops).
Local Notation op_ := (op_ ops o0).
Local Notation here := (here c M t ops).
Local Notation held := (held c M t ops).
Local Notation kept := (kept c M t ops).
Local Notation paid := (paid c M t ops o0).
Local Notation lasting := (lasting c M t ops o0).
Local Notation rows := (rows pairs).
Local Notation cols := (cols pairs).
Local Notation words := (words pairs d dv).

Lemma kept_F ij l : ij \in pairs -> l < dv -> kept (prodF l ij) n.
Proof.
move=> pin ltl; have out : O ij.1 l \in outputs t.
  by apply/allpairsP; exists (ij, l); rewrite mem_iota add0n.
have /hasP[v vin wv] := all_out ok out; apply/hasP; exists v => //.
have : sound c M t ops n v by apply: (sound_all o0 ok) => //; rewrite mem_cat vin orbT.
case: v wv {vin} => [w|[w T]] /=.
  by move=> /eqP->; rewrite !mem_cat => /or3P[] /allpairsP[? [_ _]].
by move=> /andP[_ /allP/(_ _ (inF_ d pin ltl))]; rewrite /prodF /= eqxx.
Qed.

Lemma lasting_F ij l : ij \in pairs -> l < dv -> exists2 k, k < n & lasting (prodF l ij) k.
Proof. by move=> pin ltl; apply: (lasts o0 ok); apply: kept_F. Qed.

(** A product of the second kind has a finished score. *)
Lemma held_E ij l k b : k < n -> does (prodF l ij) (op_ k) -> b < d -> held (prodE b ij) k.
Proof.
move=> ltk /doesP[T [x o]] ltb; have [Fin _ wh _ _] := op_mul ok ltk o.
have pin : ij \in pairs.
  case: (ij) Fin => i j; rewrite mem_cat => /orP[] /allpairsP[[[i' j'] e] [/= pin _]] //.
  by case=> -> -> _.
apply: (whole_held o0 ok (inE_ dv pin ltb) _ (ltnW ltk)) => //.
by rewrite !mem_cat; apply/negP => /or3P[] /allpairsP[? [_ _]].
Qed.

Lemma score_does_F ij l k : k < n -> does (prodF l ij) (op_ k) -> score ij \in here k.
Proof.
move=> ltk /doesP[T [x o]]; have [_ _ wh _ _] := op_mul ok ltk o.
exact: whole_here wh.
Qed.

Lemma score_does_E ij b k : k < n -> does (prodE b ij) (op_ k) -> score ij \in here k.+1.
Proof.
move=> ltk /doesP[T [x o]]; have [_ + _ _ _] := moveP o0 ok ltk.
by rewrite o => /(_ _ erefl); apply: (map_f (@name _ _)).
Qed.

(** The words that products of [[x, y)] touch are paid. *)
Lemma touched_paid x y (e f : nat -> pred (nat * nat)) (s : seq (nat * nat)) w : y <= n ->
  (forall b ij, ij \in pairs -> b < d -> e b ij -> exists2 k, x <= k < y & does (prodE b ij) (op_ k)) ->
  (forall l ij, ij \in pairs -> l < dv -> f l ij -> exists2 k, x <= k < y & lasting (prodF l ij) k) ->
  (forall ij, ij \in s -> paid x y (score ij)) ->
  w \in words e f s -> paid x y w.
Proof.
move=> len inx iny ins; rewrite /touched.words !mem_cat => /or4P[||| /orP[|]].
- case/allpairsPdep => b [r [+ /rowsP[ij [pin eij] ->] ->]]; rewrite mem_iota => ltb.
  have [k /andP[le lt] /doesP[T [z o]]] := inx b ij pin ltb eij; have ltn := leq_trans lt len.
  have [_ _ wh _ _] := op_mul ok ltn o.
  by apply: (operand_paid o0 ok (k := k)); rewrite ?le ?(ltnW lt) ?(ltnW ltn) ?(whole_here wh) // => -[].
- case/allpairsPdep => b [r [+ /colsP[ij [pin eij] ->] ->]]; rewrite mem_iota => ltb.
  have [k /andP[le lt] /doesP[T [z o]]] := inx b ij pin ltb eij; have ltn := leq_trans lt len.
  have [_ _ _ wh _] := op_mul ok ltn o.
  by apply: (operand_paid o0 ok (k := k)); rewrite ?le ?(ltnW lt) ?(ltnW ltn) ?(whole_here wh) // => -[].
- case/allpairsPdep => l [r [+ /colsP[ij [pin fij] ->] ->]]; rewrite mem_iota => ltl.
  have [k /andP[le lt] /lastingP[/doesP[T [z o]] _]] := iny l ij pin ltl fij; have ltn := leq_trans lt len.
  have [_ _ _ wh _] := op_mul ok ltn o.
  by apply: (operand_paid o0 ok (k := k)); rewrite ?le ?(ltnW lt) ?(ltnW ltn) ?(whole_here wh) // => -[].
- case/allpairsPdep => l [r [+ /rowsP[ij [pin fij] ->] ->]]; rewrite mem_iota => ltl.
  by have [k range la] := iny l ij pin ltl fij; apply: (lasting_paid ok la range len).
by case/mapP => ij /ins + ->.
Qed.

(** Every word of Q, K and V is read, and every word of O is written. *)
Lemma compulsory : (d + dv) * (size (rows predT) + size (cols predT)) <= traffic ops.
Proof.
have un : uniq (words (fun=> predT) (fun=> predT) [::]) by apply: words_uniq.
have := @paid_traffic _ _ c M t ops o0 _ un; rewrite words_size !sum_nat_const !card_ord addn0 => le.
apply: leq_trans (le _) => [|w].
  by move: (size (rows _)) (size (cols _)) => R K; apply: eq_leq; ring.
apply: touched_paid => // [b ij pin ltb _|l ij pin ltl _]; last first.
  by have [k ltk la] := lasting_F pin ltl; exists k.
have [k ltk /lastingP[dk _]] := lasting_F pin dv_gt0.
have hE := held_E ltk dk ltb.
have /(pastP o0 ok _ (ltnW ltk))[j ltj dj] := held_past o0 ok (ltnW ltk) hE.
by exists j => //; apply: ltn_trans ltk.
Qed.

End Attention.
