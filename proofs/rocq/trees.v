(** * Attention, class [trees]: Lemma 8 of [proofs/constant_tight.md]

    Each product is executed once; partial sums may be written, read and added.
    With the cap of a segment ([touched.v]) this gives Theorem 2. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model segments touched classes stays pairs.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Lemma at_most_one m (b : pred nat) : (forall i i', b i -> b i' -> i = i') ->
  \sum_(i < m) (b i : nat) <= 1.
Proof.
move=> one; have [i bi|no] := pickP (fun i : 'I_m => b i); last by rewrite big1 // => i _; rewrite no.
rewrite (bigD1 i) //= big1 ?addn0 ?bi // => j ne.
by have [/(one _ _ bi)/val_inj ji|//] := boolP (b j); rewrite ji eqxx in ne.
Qed.

Section Trees.
Variables (c : class) (pairs : seq (nat * nat)) (d dv M : nat).
Variable ops : seq (move aword_eqType aproduct_eqType).
Hypothesis pairs_uniq : uniq pairs.
Hypothesis d_gt0 : 0 < d.
Hypothesis dv_gt0 : 0 < dv.
Hypothesis M_gt0 : 0 < M.
Hypothesis each_once : again c = false.
Hypothesis ok : attains c M (attention_widths pairs d dv) ops.

Local Notation t := (attention_widths pairs d dv).
Local Notation o0 := (@Free aword_eqType aproduct_eqType (inl (Q 0 0))).
Local Notation n := (size ops).
Local Notation op_ := (op_ ops o0).
Local Notation here := (here c M t ops).
Local Notation held := (held c M t ops).
Local Notation kept := (kept c M t ops).
Local Notation event := (event c M t ops o0).
Local Notation paid := (paid c M t ops o0).
Local Notation lasting := (lasting c M t ops o0).
Local Notation starts := (starts c M t ops o0).
Local Notation written := (written c M t ops o0).
Local Notation rows := (rows pairs).
Local Notation cols := (cols pairs).
Local Notation parts := (parts c M t ops o0 M).
Local Notation border := (border n M M event).
Local Notation segment := (segment M M event).

(** ** The position of a product *)

Lemma does_once p j k : j < n -> k < n -> does p (op_ j) -> does p (op_ k) -> j = k.
Proof.
have lt_ x y : y < n -> x < y -> does p (op_ x) -> does p (op_ y) -> False.
  move=> lty ltxy dx /doesP[T [z o]]; have [_ + _ _ _] := op_mul ok lty o.
  by rewrite each_once => /negP; apply; apply/(pastP o0 ok _ (ltnW lty)); exists x.
move=> ltj ltk dj dk; case: (ltngtP j k) => // lt.
  by case: (lt_ j k ltk lt dj dk).
by case: (lt_ k j ltj lt dk dj).
Qed.

Definition pos p := find (does p) ops.

Lemma pos_does p k : k < n -> does p (op_ k) -> pos p = k.
Proof.
move=> lt dk; have hasp : has (does p) ops by apply/(has_nthP o0); exists k.
by apply: (@does_once p) => //; rewrite -?has_find //; apply: nth_find.
Qed.

Lemma posF ij l : ij \in pairs -> l < dv ->
  [/\ pos (prodF l ij) < n, does (prodF l ij) (op_ (pos (prodF l ij))) & lasting (prodF l ij) (pos (prodF l ij))].
Proof.
move=> pin ltl; have [k ltk la] := lasting_F ok pin ltl; have [dk _] := lastingP la.
by rewrite (pos_does ltk dk).
Qed.

Lemma posE ij b l : ij \in pairs -> b < d -> l < dv ->
  pos (prodE b ij) < pos (prodF l ij) /\ does (prodE b ij) (op_ (pos (prodE b ij))).
Proof.
move=> pin ltb ltl; have [ltk dk _] := posF pin ltl.
have /(pastP o0 ok _ (ltnW ltk))[j ltj dj] := held_past o0 ok (ltnW ltk) (held_E ok ltk dk ltb).
by rewrite (pos_does (ltn_trans ltj ltk) dj).
Qed.

Lemma posE_lt ij b : ij \in pairs -> b < d -> pos (prodE b ij) < n.
Proof.
move=> pin ltb; have [lt _] := posE pin ltb dv_gt0; have [ltn _ _] := posF pin dv_gt0.
exact: ltn_trans ltn.
Qed.

(** ** Visits of a pair to segments *)

Definition segE b ij := segment (pos (prodE b ij)).
Definition segF l ij := segment (pos (prodF l ij)).
Local Notation segs := (segs d dv segE segF).
Local Notation segE_in := (segE_in dv segE segF).
Local Notation segF_in := (segF_in d segE segF).

Lemma segs_lt ij i : ij \in pairs -> i \in segs ij -> i < parts.
Proof.
move=> pin; rewrite mem_cat => /orP[] /mapP[b]; rewrite mem_iota => ltb ->.
  by apply: segment_lt; apply: posE_lt.
by apply: segment_lt; have [] := posF pin ltb.
Qed.

(** Inner pairs, free starts, and paid visits. *)
Definition inner i ij := all (pred1 i) (segs ij).
Definition bought i ij := paid (border i) (border i.+1) (score ij).
Definition visit i ij := [&& i \in segs ij, ~~ inner i ij & bought i ij].
Definition fresh i ij := [&& i \in segs ij, ~~ inner i ij & ~~ bought i ij].

Lemma inner_all i ij x : ij \in pairs -> inner i ij -> x \in segs ij -> x == i.
Proof. by move=> _ /allP; apply. Qed.

Lemma visits i ij : ij \in pairs -> i \in segs ij -> [|| inner i ij, visit i ij | fresh i ij].
Proof. by move=> _; rewrite /visit /fresh => ->; case: inner; case: bought. Qed.

(** Where a pair is visited its score is in fast memory. *)
Lemma visit_here ij i : ij \in pairs -> i \in segs ij ->
  exists k, [/\ border i <= k <= n, k <= border i.+1 & score ij \in here k].
Proof.
move=> pin; rewrite mem_cat => /orP[] /mapP[b]; rewrite mem_iota add0n => ltb ->.
  have ltn := posE_lt pin ltb; have [_ dk] := posE pin ltb dv_gt0.
  have /andP[le lt] : border (segE b ij) <= pos (prodE b ij) < border (segE b ij).+1.
    by rewrite -in_segment.
  exists (pos (prodE b ij)).+1; split; [by rewrite ltn leqW | exact: lt |].
  exact: (score_does_E ok ltn dk).
have [ltn dk _] := posF pin ltb.
have /andP[le lt] : border (segF b ij) <= pos (prodF b ij) < border (segF b ij).+1.
  by rewrite -in_segment.
by exists (pos (prodF b ij)); split; rewrite ?le ?(ltnW ltn) ?(ltnW lt) //; apply: (score_does_F ok ltn dk).
Qed.

(** A free start begins a closed stay, in which all products of the second kind
    of the pair are executed. *)
Lemma closed i ij : ij \in pairs -> fresh i ij ->
  exists j, [/\ border i <= j < border i.+1, score ij \notin here j &
    forall l, l < dv -> j < pos (prodF l ij) /\
      forall x, j < x <= pos (prodF l ij) -> score ij \in here x].
Proof.
move=> pin /and3P[iin _ nb]; have [k [range lek hk]] := visit_here pin iin.
have [al|[j [/andP[lej ltj] nj al how]]] := stay o0 ok range hk.
  case/negP: nb; apply/orP; left; apply: al; rewrite leqnn; by case/andP: range.
have inseg : border i <= j < border i.+1 by rewrite lej (leq_trans ltj).
have ltn : j < n by apply: leq_trans ltj _; case/andP: range.
have noev : ~ (event j /\ brings t ops o0 j = Some (score ij)).
  by move=> ev; case/negP: nb; apply/paidP; right; exists j.
case: how => [/(event_read c M t)//|st].
have nowr : ~~ written (score ij) j by apply/negP => wr; apply: noev; apply: event_start.
have [q dq [qs _]] := st.
(* Nothing that has the first term outlasts the stay. *)
have stays k' : j < k' -> k' <= n -> held q k' -> (forall i', i' < k' -> ~~ kept q i') ->
    forall x, j < x <= k' -> held q x.
  move=> lt len hq no x /andP[ltx lex]; apply: (carried ok lex len hq) => y /andP[lexy lty].
    apply/negP => dy; have := does_once ltn (leq_trans lty len) dq dy => ejy.
    by move: lexy; rewrite -ejy leqNgt ltx.
  exact: no.
have after k' : k' <= n -> held q k' -> j < k'.
  move=> len /(held_past o0 ok len)/(pastP o0 ok _ len)[y lty dy].
  by rewrite (does_once ltn (leq_trans lty len) dq dy).
have never x : x <= n -> ~~ kept q x.
  move=> lex; apply/negP => /(first_write o0 ok lex)[e [lte [v oe tv] no]].
  have len := leq_trans (ltnW lte) lex.
  have he : held q e by apply/hasP; exists v => //; apply: (op_write ok _ oe); apply: leq_trans lex.
  have lje := after e len he.
  case/negP: nowr; apply/writtenP; exists e; split; first by rewrite lje (leq_trans lte).
    rewrite oe /= -qs (term_name o0 ok len _ tv) // mem_cat.
    by rewrite (op_write ok (leq_trans lte lex) oe).
  move=> y /andP[lty ley]; rewrite -qs; apply: (held_here o0 ok); first exact: leq_trans len.
  by apply: stays lje len he _ _ _ => [i' lti'|]; [apply/no/ltnW | rewrite lty].
exists j; split=> // l ltl; have [ltF dF _] := posF pin ltl.
have [b ltb eq] : exists2 b, b < d & q = prodE b ij.
  have [T [z o]] := doesP _ _ dq; have [qin _ _ _ _] := op_mul ok ltn o.
  move: qin qs; rewrite mem_cat => /orP[] /allpairsP[[ij' b] [_ /= bin ->]] // -[e1 e2].
  by exists b; [move: bin; rewrite mem_iota | rewrite /prodE -e1 -e2].
have hF : held q (pos (prodF l ij)) by rewrite eq; apply: (held_E ok ltF dF ltb).
have ltjF := after _ (ltnW ltF) hF; split=> // x ltx; rewrite -qs.
apply: (held_here o0 ok); first by case/andP: ltx => _ le; apply: leq_trans le (ltnW ltF).
apply: stays ltjF (ltnW ltF) hF _ _ ltx => i' lti'; apply: never.
exact: leq_trans (ltnW lti') (ltnW ltF).
Qed.

Lemma border_segment i j : border i <= j < border i.+1 -> segment j = i.
Proof.
move=> range; have ltn : j < n.
  by case/andP: range => _ lt; apply: leq_trans lt (border_size _ _ _ _ _).
by apply/eqP; rewrite (@in_segment n M M event i j ltn).
Qed.

Lemma fresh_once i i' ij : ij \in pairs -> fresh i ij -> fresh i' ij -> i = i'.
Proof.
move=> pin fi fi'; have [j [rj nj al]] := closed pin fi; have [j' [rj' nj' al']] := closed pin fi'.
have [ltj hj] := al 0 dv_gt0; have [ltj' hj'] := al' 0 dv_gt0.
rewrite -(border_segment rj) -(border_segment rj'); case: (ltngtP j j') => [lt|gt|->] //.
  by case/negP: nj'; apply: hj; rewrite lt ltnW.
by case/negP: nj; apply: hj'; rewrite gt ltnW.
Qed.

(** The stay outlives the segment. *)
Lemma fresh_here i ij : ij \in pairs -> fresh i ij -> score ij \in here (border i.+1).
Proof.
move=> pin fi; have [j [/andP[lej ltj] nj al]] := closed pin fi.
have [//|nh] := boolP (score ij \in here (border i.+1)).
have inF l : l < dv -> border i <= pos (prodF l ij) < border i.+1.
  move=> ltl; have [lt hF] := al l ltl; rewrite (leq_trans lej (ltnW lt)) /= ltnNge.
  by apply/negP => le; case/negP: nh; apply: hF; rewrite ltj.
case/and3P: fi => _ /negP ni /negP nb; case: ni; apply/allP => x.
rewrite mem_cat => /orP[] /mapP[b]; rewrite mem_iota add0n => ltb -> /=; last first.
  exact/eqP/border_segment/inF.
have /andP[leF ltF] := inF 0 dv_gt0; have [ltn dF _] := posF pin dv_gt0.
have := @term_entry _ _ _ _ _ _ o0 ok (prodE b ij) (border i) (pos (prodF 0 ij)).
rewrite leF (ltnW ltn) => /(_ isT (held_E ok ltn dF ltb))[hs|[k /andP[lek ltk] how]].
  case: nb; apply/orP; left.
  exact: (held_here o0 ok (border_size _ _ _ _ _) hs).
have ltkn := ltn_trans ltk ltn; have range : border i <= k < border i.+1 by rewrite lek (ltn_trans ltk).
case: how => [dk|[v ov tv]]; first by rewrite /segE (pos_does ltkn dk); apply/eqP/border_segment.
case: nb; apply/paidP; right; exists k => //; apply: (event_read c M t); rewrite ov /=.
rewrite (term_name o0 ok (ltnW ltkn) _ tv) // mem_cat (op_read ok ltkn ov); exact: orbT.
Qed.

Lemma fresh_size i : count (fresh i) pairs <= M.
Proof.
have le := near_size o0 ok (border_size n M M event i.+1).
rewrite -(size_map (@name _ _)) in le; apply: leq_trans le.
rewrite -size_filter -(size_map score); apply: uniq_leq_size.
  by rewrite map_inj_uniq ?filter_uniq // => -[? ?] [? ?] [/= -> ->].
by move=> _ /mapP[ij + ->]; rewrite mem_filter => /andP[fr pin]; apply: fresh_here.
Qed.

(** ** At most one inner or free visit per pair, and another, paid visit *)

Lemma free_once : \sum_(i < parts) (count (fresh i) pairs + count (inner i) pairs) <= size pairs.
Proof.
under eq_bigr do rewrite !count_sum -big_split /=.
rewrite exchange_big /= -sum1_size big_seq [X in _ <= X]big_seq; apply: leq_sum => ij pin.
have -> : \sum_(i < parts) (fresh i ij + inner i ij) = \sum_(i < parts) (fresh i ij || inner i ij : nat).
  by apply: eq_bigr => i _; rewrite /fresh; case: inner; rewrite /= ?andbF ?orbF ?addn0.
have inn i x : inner i ij -> x \in segs ij -> x = i by move=> /allP al /al/eqP.
apply: (@at_most_one _ (fun i => fresh i ij || inner i ij)) => i i' /orP[fi|ii] /orP[fi'|ii'].
- exact: fresh_once fi fi'.
- by case/and3P: fi => iin _ _; apply: inn ii' iin.
- by case/and3P: fi' => iin _ _; symmetry; apply: inn ii iin.
by rewrite -(inn _ _ ii (segE_in ij d_gt0)); apply: inn ii' (segE_in ij d_gt0).
Qed.

Lemma free_paid : \sum_(i < parts) count (fresh i) pairs <= \sum_(i < parts) count (visit i) pairs.
Proof.
under eq_bigr do rewrite count_sum; under [X in _ <= X]eq_bigr do rewrite count_sum.
rewrite exchange_big [X in _ <= X]exchange_big /= big_seq [X in _ <= X]big_seq.
apply: leq_sum => ij pin.
have [i fi|no] := pickP (fun i : 'I_parts => fresh i ij); last by rewrite big1 // => i _; rewrite no.
apply: leq_trans (@at_most_one _ (fun i => fresh i ij) _) _; first by move=> x y; apply: fresh_once.
have /and3P[_ /allPn[x xin ne] _] := fi; have ltx := segs_lt pin xin.
rewrite (bigD1 (Ordinal ltx)) //= (_ : visit x ij) //; apply/and3P; split=> //.
  by apply/allPn; exists (val i); [case/and3P: fi | rewrite /= eq_sym].
apply/negPn/negP => nb; case/negP: (ne); apply/eqP/(@fresh_once _ _ ij) => //.
apply/and3P; split=> //; apply/allPn; exists (val i); first by case/and3P: fi.
by rewrite /= eq_sym.
Qed.

(** ** One segment *)

Local Notation e i := (fun b ij => segE b ij == i).
Local Notation f i := (fun l ij => segF l ij == i).

Lemma segment_words i :
  \sum_(b < d) size (rows (e i b)) + \sum_(b < d) size (cols (e i b))
    + \sum_(l < dv) size (cols (f i l)) + \sum_(l < dv) size (rows (f i l))
    + count (visit i) pairs <= 2 * M.
Proof.
have := words_size pairs d dv (e i) (f i) [seq ij <- pairs | visit i ij].
rewrite size_filter mul2n -addnn => <-.
apply: (paid_segment ok M_gt0 (i := i)); first by apply/words_uniq/filter_uniq.
move=> w; apply: (touched_paid ok); first exact: border_size.
- move=> b ij pin ltb /eqP eqi; have [_ dk] := posE pin ltb dv_gt0.
  by exists (pos (prodE b ij)) => //; rewrite -in_segment ?posE_lt // -eqi.
- move=> l ij pin ltl /eqP eqi; have [ltk _ la] := posF pin ltl.
  by exists (pos (prodF l ij)) => //; rewrite -in_segment // -eqi.
by move=> ij; rewrite mem_filter => /andP[/and3P[]].
Qed.

(** ** The whole schedule *)

Theorem trees_bound : 5 * (d + dv) ^ 2 <= 8 * M -> size pairs * (d + dv) ^ 2 <= traffic ops * M.
Proof.
move=> large; apply: bound_of_parts (compulsory dv_gt0 ok) (parts_traffic (o0 := o0) M_gt0) _.
  by have := box pairs_uniq predT; rewrite count_predT.
exact: (parts_needed pairs_uniq d_gt0 segs_lt inner_all visits fresh_size segment_words
  free_once free_paid).
Qed.

End Trees.
