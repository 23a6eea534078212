(** * Schedules that compute, at every size

    Each product on its own, in three words: so no theorem is empty because
    nothing computes what it speaks of. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model machine.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section One.
Variables (word product : eqType) (M : nat) (t : task word product).
Implicit Types (p : product) (X : seq product).

Definition alone X p : seq (op word product) :=
  Load (left t p) :: Load (right t p)
  :: (if has (fun q => sum t q == sum t p) X then [:: Load (sum t p)] else [::])
  ++ [:: Do p; Store (sum t p); Drop (sum t p); Drop (right t p); Drop (left t p)].

(** The products [todo], after those of [X]. *)
Fixpoint each X todo := if todo is p :: rest then alone X p ++ each (p :: X) rest else [::].

(** Operands are inputs, or sums whose products come before. *)
Definition known X w :=
  (w \in inputs t) && all (fun q => sum t q != w) (products t)
  || has (fun q => sum t q == w) X && all (fun q => (sum t q == w) ==> (q \in X)) (products t).

Definition holds X (s : state word product) :=
  [/\ fast s = [::], done s = X,
      {in inputs t, forall w, all (fun q => sum t q != w) (products t) -> w \in slow s} &
      {in X, forall q, sum t q \in slow s}].

Lemma known_slow X s w : holds X s -> known X w -> w \in slow s /\ finished t s w.
Proof.
case=> _ dn inp out /orP[] /andP[]; rewrite /finished dn.
  by move=> win no; split; [exact: inp | apply: sub_all no => q /negPf->].
by move=> /hasP[q qin /eqP <-] al; split; [exact: out | exact: al].
Qed.

Lemma alone_ok X s p : 3 <= M -> holds X s -> p \in products t -> p \notin X ->
  {subset X <= products t} ->
  uniq [:: left t p; right t p; sum t p] -> known X (left t p) -> known X (right t p) ->
  exists2 s', run M t s (alone X p) = Some s' & holds (p :: X) s'.
Proof.
move=> le3 hold pin nin sub un rl rr.
have [ls lf] := known_slow hold rl; have [rs rf] := known_slow hold rr.
case: s hold ls lf rs rf => fs sl dn [/= -> -> {fs dn}] inp out ls lf rs rf.
move: un; rewrite /= !inE negb_or andbT => /andP[/andP[lr lsum] rsum].
have M0 : 0 < M by apply: leq_trans le3.
have M1 : 1 < M by apply: leq_trans le3.
have end_ s' : fast s' = [::] -> done s' = p :: X ->
    slow s' = sum t p :: filter (predC1 (sum t p)) sl -> holds (p :: X) s'.
  case: s' => f' s' d' /= -> -> ->; split=> //= w.
    move=> win no; rewrite inE mem_filter /=.
    by case: eqP => //= _; apply: inp.
  by rewrite !inE mem_filter /= => /orP[/eqP->|/out ->]; rewrite ?eqxx // andbT orbN.
have lr' : right t p == left t p = false by rewrite eq_sym (negPf lr).
have sl' : sum t p == left t p = false by rewrite eq_sym (negPf lsum).
have sr' : sum t p == right t p = false by rewrite eq_sym (negPf rsum).
rewrite /alone /= ls M0 /= rs !inE lr' M1 /=.
have [st|nst] := boolP (has _ X).
  have sums : sum t p \in sl by case/hasP: st => q /out qs /eqP <-.
  rewrite /= sums !inE sr' sl' le3 /= /ready /= pin nin !inE !eqxx ?orbT /=.
  rewrite /finished /= in lf rf *; rewrite lf rf /=.
  do !rewrite ?inE ?eqxx ?sl' ?sr' ?lr' ?orbT /=.
  by eexists; [reflexivity | apply: end_].
rewrite /= /ready /= pin nin !inE !eqxx ?orbT /=.
rewrite /finished /started /= in lf rf *; rewrite lf rf sr' sl' nst le3 /=.
do !rewrite ?inE ?eqxx ?sl' ?sr' ?lr' ?orbT /=.
by eexists; [reflexivity | apply: end_].
Qed.

Hypothesis M_ge3 : 3 <= M.
Hypothesis prods_uniq : uniq (products t).
Hypothesis words_uniq : {in products t, forall p, uniq [:: left t p; right t p; sum t p]}.
Hypothesis in_order : forall pre p post, products t = pre ++ p :: post ->
  known pre (left t p) /\ known pre (right t p).
Hypothesis outputs_sums : {in outputs t, forall w, exists2 p, p \in products t & sum t p = w}.

Lemma known_rev X w : known (rev X) w = known X w.
Proof. by rewrite /known has_rev; congr (_ || _ && _); apply: eq_all => q; rewrite mem_rev. Qed.

Lemma each_ok todo X s : products t = rev X ++ todo -> holds X s ->
  exists2 s', run M t s (each X todo) = Some s' & holds (rev todo ++ X) s'.
Proof.
elim: todo X s => [|p todo IH] X s eqp hold; first by exists s.
have [] := in_order eqp; rewrite !known_rev => rl rr.
have pin : p \in products t by rewrite eqp mem_cat mem_head orbT.
have nin : p \notin X.
  by move: prods_uniq; rewrite eqp cat_uniq /= mem_rev negb_or => /and3P[_ /andP[]].
have sub : {subset X <= products t} by move=> q qX; rewrite eqp mem_cat mem_rev qX.
have [s1 r1 h1] := alone_ok M_ge3 hold pin nin sub (words_uniq pin) rl rr.
have [|s2 r2 h2] := IH (p :: X) s1 _ h1; first by rewrite rev_cons cat_rcons.
exists s2; last by rewrite rev_cons cat_rcons.
by rewrite -[each X _]/(alone X p ++ each (p :: X) todo) run_cat r1.
Qed.

Lemma each_computes : computes M t (each [::] (products t)).
Proof.
have [|s r [_ dn _ out]] := @each_ok (products t) [::] (start t) erefl; first by split.
rewrite cats0 in dn out; rewrite /computes r dn; apply/andP; split.
  by apply/allP => p pin; rewrite /= mem_rev.
by apply/allP => w /outputs_sums[p pin <-]; apply: out; rewrite mem_rev.
Qed.

End One.

Lemma cat_before (T : eqType) (a b pre post : seq T) p :
  a ++ b = pre ++ p :: post -> p \notin a -> {subset a <= pre}.
Proof.
move=> e nin; have [le|gt] := leqP (size a) (size pre).
  have -> : a = take (size a) pre.
    by have := congr1 (take (size a)) e; rewrite take_size_cat // takel_cat.
  by move=> x; apply: mem_take.
have := congr1 (fun s => nth p s (size pre)) e.
rewrite !nth_cat gt ltnn subnn /= => ep.
by move: nin; rewrite -ep mem_nth.
Qed.

Lemma attention_each pairs d dv M : uniq pairs -> 0 < d -> 3 <= M ->
  exists ops, computes M (attention_widths pairs d dv) ops.
Proof.
move=> un d_gt0 le3; eexists; apply: each_computes => //.
- rewrite cat_uniq !allpairs_uniq ?iota_uniq //=; try by move=> [[? ?] ?] [[? ?] ?] _ _ [-> -> ->].
  by rewrite andbT; apply/hasPn => _ /allpairsP[? [_ _ ->]]; apply/negP => /allpairsP[? [_ _]].
- by move=> [? ? ?|? ? ?].
- move=> pre p post e; have : p \in products (attention_widths pairs d dv) by rewrite e mem_cat mem_head orbT.
  rewrite mem_cat => /orP[] /allpairsP[[[i j] c] [/= ijin cin ep]]; subst p; rewrite /known.
    split; apply/orP; left; apply/andP; split; try by apply/allP => -[].
      by rewrite !mem_cat; apply/or3P/Or31/allpairsP; exists ((i, j), c).
    by rewrite !mem_cat; apply/or3P/Or32/allpairsP; exists ((i, j), c).
  have sub := cat_before e; split; apply/orP; [right | left]; apply/andP; split.
  + apply/hasP; exists (E i j 0) => //; apply: sub.
      by apply/negP => /allpairsP[? [_ _]].
    by apply/allpairsP; exists ((i, j), 0); rewrite mem_iota.
  + apply/allP => q; rewrite mem_cat => /orP[qin|].
      by apply/implyP => _; apply: sub qin; apply/negP => /allpairsP[? [_ _]].
    by case/allpairsP => -[? ?] [_ _ ->].
  + by rewrite !mem_cat; apply/or3P/Or33/allpairsP; exists ((i, j), c).
  by apply/allP => -[].
by move=> _ /allpairsP[[[i j] l] [ijin lin ->]]; exists (F i j l) => //;
  rewrite mem_cat; apply/orP; right; apply/allpairsP; exists ((i, j), l).
Qed.

Lemma product_each m n k M : 0 < k -> 3 <= M ->
  exists ops, computes M (matrix_product m n k) ops.
Proof.
move=> k0 le3; eexists; apply: each_computes => //.
- apply: allpairs_uniq; rewrite ?iota_uniq //; last by move=> [[? ?] ?] [[? ?] ?] _ _ [-> -> ->].
  by apply: allpairs_uniq; rewrite ?iota_uniq // => -[? ?] [? ?] _ _ [-> ->].
- by move=> [].
- move=> pre p post e.
  have : p \in products (matrix_product m n k) by rewrite e mem_cat mem_head orbT.
  move=> /allpairsP[[ij l] [/allpairsP[[i j] [iin jin ->]] lin ->]] /=; rewrite /known.
  split; apply/orP; left; apply/andP; split; try by apply/allP => -[].
    by rewrite mem_cat; apply/orP; left; apply/allpairsP; exists (i, l).
  by rewrite mem_cat; apply/orP; right; apply/allpairsP; exists (l, j).
move=> _ /allpairsP[[i j] [iin jin ->]]; exists (Mul i j 0) => //.
apply/allpairsP; exists ((i, j), 0); rewrite mem_iota; split=> //.
by apply/allpairsP; exists (i, j).
Qed.
