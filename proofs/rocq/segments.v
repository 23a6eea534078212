(** * Segments, and counting

    A sequence of positions, some of which are events, is cut into segments: the
    first ends after [M + S] events, each later one after [S] more.  Then the
    inequality of Loomis and Whitney, and that of the two means for three
    numbers, over [nat]. *)

From mathcomp Require Import all_ssreflect.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Cut.
Variables (n M S : nat) (ev : pred nat).
Hypothesis S_gt0 : 0 < S.

(** The events before position [k], and the segment of position [k]. *)
Definition events k := count ev (iota 0 k).
Definition segment k := (events k.+1 - M.+1) %/ S.

(** Where segment [t] begins. *)
Definition border t := find (fun k => t <= segment k) (iota 0 n).

Lemma eventsS k : events k.+1 = events k + ev k.
Proof. by rewrite /events -addn1 iotaD count_cat /= addn0. Qed.

Lemma events_between j k : j <= k -> events k = events j + count ev (iota j (k - j)).
Proof. by move=> le; rewrite /events -{1}(subnKC le) iotaD count_cat. Qed.

Lemma leq_events j k : j <= k -> events j <= events k.
Proof. by move=> le; rewrite (events_between le) leq_addr. Qed.

Lemma leq_segment j k : j <= k -> segment j <= segment k.
Proof. by move=> le; apply/leq_div2r/leq_sub2r/leq_events. Qed.

Lemma border_size t : border t <= n.
Proof. by rewrite /border -{2}(size_iota 0 n) find_size. Qed.

Lemma border0 : border 0 = 0.
Proof. by rewrite /border; case: n. Qed.

Lemma leq_border t k : k < n -> (border t <= k) = (t <= segment k).
Proof.
move=> lt; apply/idP/idP => [le|].
  apply: leq_trans (leq_segment le); have ltb := leq_ltn_trans le lt.
  have : has (fun k => t <= segment k) (iota 0 n) by rewrite has_find size_iota.
  by move/(nth_find 0); rewrite nth_iota // add0n.
apply: contraTT; rewrite -!ltnNge => ltk.
by have := before_find 0 ltk; rewrite nth_iota // add0n => /negbT; rewrite -ltnNge.
Qed.

Lemma in_segment t k : k < n -> (segment k == t) = (border t <= k < border t.+1).
Proof. by move=> lt; rewrite ltnNge !leq_border // -ltnNge ltnS eqn_leq andbC. Qed.

Lemma leq_borders t : border t <= border t.+1.
Proof.
have := border_size t.+1; rewrite leq_eqVlt => /orP[/eqP->|lt]; first exact: border_size.
by rewrite leq_border //; apply: ltnW; rewrite -leq_border.
Qed.

(** The first segment has at most [M + S] events, a later one at most [S]. *)
Lemma segment_events t :
  count ev (iota (border t) (border t.+1 - border t)) <= (t == 0) * M + S.
Proof.
have [ltb|geb] := ltnP (border t) n; last first.
  suff -> : border t.+1 - border t = 0 by [].
  by apply/eqP; rewrite subn_eq0 (leq_trans (border_size _)).
rewrite -(leq_add2l (events (border t))) -events_between ?leq_borders //.
have upper : events (border t.+1) <= M + S * t.+1.
  case e: (border t.+1) => [//|k]; have ltk : k < border t.+1 by rewrite e.
  have := leq_border t.+1 (leq_trans ltk (border_size _)).
  rewrite leqNgt ltk /= => /esym/negbT; rewrite -ltnNge /segment ltn_divLR // mulnC.
  have [le _|gt] := leqP (events k.+1) M; first exact: leq_trans le (leq_addr _ _).
  by rewrite ltn_subLR // addSn ltnS.
apply: leq_trans upper _; rewrite mulnS.
case: t ltb => [|t] ltb; first by rewrite mul1n muln0 addn0 leq_addl.
rewrite mul0n add0n addnA [M + _ + _]addnAC leq_add2r.
have : t.+1 <= segment (border t.+1) by rewrite -leq_border.
rewrite /segment leq_divRL // mulnC => le.
have gt : 0 < events (border t.+1).+1 - M.+1.
  by apply: leq_trans le; rewrite muln_gt0 S_gt0.
rewrite subn_gt0 in gt; move: le; rewrite leq_subRL; last exact: ltnW.
rewrite addSn eventsS; case: (ev _); first by rewrite addn1 ltnS.
by rewrite addn0; apply: ltnW.
Qed.

(** The number of segments. *)
Definition segments := (segment n.-1).+1.

Lemma segment_lt k : k < n -> segment k < segments.
Proof. by move=> lt; rewrite ltnS leq_segment // -ltnS (ltn_predK lt). Qed.

Lemma segments_events : 1 < segments -> M + S * segments.-1 < events n.
Proof.
rewrite /segments ltnS => gt0 /=; have le : S * segment n.-1 <= events n.-1.+1 - M.+1.
  by rewrite mulnC leq_trunc_div.
have gt : 0 < events n.-1.+1 - M.+1.
  by apply: leq_trans le; rewrite muln_gt0 S_gt0.
have n_gt0 : 0 < n.
  case: n gt => // gt; move: gt; rewrite subn_gt0 eventsS => lt.
  by have := leq_trans lt (leq_b1 (ev 0)); rewrite !ltnS ltn0.
rewrite (ltn_predK n_gt0) subn_gt0 in le gt; rewrite leq_subRL in le; last exact: ltnW.
by rewrite -addSn.
Qed.

End Cut.

(** ** Sums over parts *)

Lemma sum_parts (T : eqType) (X : seq T) (f : T -> nat) (a : pred T) m :
    {in X, forall x, f x < m} ->
  \sum_(t < m) count (fun x => (f x == t) && a x) X = count a X.
Proof.
elim: X => [|x X IH] /= lt; first by rewrite big1.
have {}IH := IH (fun y yin => lt y (mem_behead (s := x :: X) yin)).
have {}lt := lt x (mem_head x X).
rewrite big_split /= IH; congr (_ + _); rewrite -(big_mkord xpredT (fun t => nat_of_bool ((f x == t) && a x))).
rewrite (bigD1_seq (f x)) ?mem_iota ?iota_uniq ?subn0 ?lt //= eqxx big1 ?addn0 // => i.
by rewrite eq_sym => /negPf->.
Qed.

(** Each of the products [b] of each of [X] is counted in some part. *)
Lemma work_of_parts (T : eqType) (X : seq T) m n (g : nat -> T -> nat) :
  (forall x b, x \in X -> b < m -> g b x < n) ->
  size X * m <= \sum_(i < n) \sum_(b < m) count (fun x => g b x == i) X.
Proof.
move=> lt; rewrite exchange_big /= (eq_bigr (fun=> size X)) => [|b _]; last first.
  by rewrite -[RHS]count_predT -(sum_parts predT (fun x xin => lt x b xin (ltn_ord b)));
    apply: eq_bigr => i _; apply: eq_count => x; rewrite andbT.
by rewrite sum_nat_const card_ord mulnC.
Qed.

(** [n] parts are needed for [Pi] pairs of [R] rows and [K] keys, all but one of which
    cost [M]; and so much is moved in any case. *)
Lemma bound_of_parts Pi D M n R K Q : Pi <= R * K -> D * (R + K) <= Q ->
  (1 < n -> M + M * n.-1 <= Q) -> Pi * D ^ 2 <= n * M ^ 2 -> Pi * D ^ 2 <= Q * M.
Proof.
move=> box compulsory cost needed; have [one|two] := leqP n 1; last first.
  apply: leq_trans needed _; rewrite -mulnn mulnA leq_mul2r; apply/orP; right.
  by apply: leq_trans (cost two); rewrite -mulnS (ltn_predK two) mulnC.
have whole : Pi * D ^ 2 <= M ^ 2.
  by apply: leq_trans needed _; rewrite -{2}[M ^ 2]mul1n leq_mul2r one orbT.
have sq : Pi * D ^ 2 <= Q ^ 2.
  apply: leq_trans (_ : (D * (R + K)) ^ 2 <= _); last by rewrite leq_exp2r.
  rewrite expnMn mulnC leq_mul2l; apply/orP; right; apply: leq_trans box _.
  by apply: leq_trans (nat_AGM2 _ _); rewrite leq_pmull.
rewrite -(leq_exp2r _ _ (isT : 0 < 2)) (expnMn Q) -mulnn.
exact: leq_mul.
Qed.

(** ** Loomis and Whitney *)

Lemma big_fibres (T U : eqType) (V : seq T) (X : seq U) (f : T -> U) (g : T -> nat) :
  uniq X -> {in V, forall u, f u \in X} ->
  \sum_(u <- V) g u = \sum_(x <- X) \sum_(u <- V | f u == x) g u.
Proof.
move=> uX sub; under [RHS]eq_bigr do rewrite big_mkcond.
rewrite exchange_big /= big_seq [RHS]big_seq; apply: eq_bigr => u /sub fu.
rewrite (bigD1_seq (f u)) //= eqxx big1 ?addn0 // => x /negPf nx.
by rewrite eq_sym nx.
Qed.

Lemma Cauchy (T : Type) (X : seq T) (f : T -> nat) :
  (\sum_(x <- X) f x) ^ 2 <= size X * \sum_(x <- X) f x ^ 2.
Proof.
rewrite -(leq_pmul2l (isT : 0 < 2)) -mulnn big_distrlr /= big_distrr /=.
apply: (@leq_trans (\sum_(x <- X) \sum_(y <- X) (f x ^ 2 + f y ^ 2))).
  by apply: leq_sum => x _; rewrite big_distrr /=; apply: leq_sum => y _; exact: nat_Cauchy.
rewrite (eq_bigr (fun x => size X * f x ^ 2 + \sum_(y <- X) f y ^ 2)); last first.
  by move=> x _; rewrite big_split /= big_const_seq count_predT iter_addn_0 mulnC.
by rewrite big_split /= -big_distrr big_const_seq count_predT iter_addn_0 mul2n -addnn [X in _ + X]mulnC.
Qed.

Definition faceA (p : nat * nat * nat) := (p.1.1, p.2).
Definition faceB (p : nat * nat * nat) := (p.2, p.1.2).
Definition faceC (p : nat * nat * nat) := p.1.

Theorem Loomis_Whitney (V : seq (nat * nat * nat)) : uniq V ->
  size V ^ 2 <= size (undup (map faceA V)) * size (undup (map faceB V))
                * size (undup (map faceC V)).
Proof.
move=> uV; set VA := undup (map faceA V); set VB := undup _; set VC := undup _.
have inC : {in V, forall u, faceC u \in VC} by move=> u uin; rewrite mem_undup map_f.
pose h x := count (fun v => faceC v == x) V.
have fibre x : h x = \sum_(u <- V | faceC u == x) 1 by rewrite sum1_count.
have -> : size V = \sum_(x <- VC) h x.
  rewrite -sum1_size (big_fibres _ (undup_uniq _) inC).
  by apply: eq_bigr => x _; rewrite fibre.
apply: leq_trans (Cauchy _ _) _; rewrite mulnC leq_mul2r; apply/orP; right.
have -> : \sum_(x <- VC) h x ^ 2 = \sum_(u <- V) h (faceC u).
  rewrite [RHS](big_fibres _ (undup_uniq _) inC); apply: eq_bigr => x _.
  rewrite -mulnn {1}fibre big_distrl /=; apply: eq_bigr => u /eqP->.
  by rewrite mul1n.
pose W := [seq (u, v) | u <- V, v <- [seq v <- V | faceC v == faceC u]].
have -> : \sum_(u <- V) h (faceC u) = size W.
  by rewrite size_allpairs_dep sumnE big_map; apply: eq_bigr => u _; rewrite size_filter.
have uW : uniq W.
  by apply: allpairs_uniq_dep => // [u _|[u v] [u' v'] _ _ [-> ->] //]; rewrite filter_uniq.
rewrite -(size_allpairs pair) -(size_map (fun x => (faceA x.1, faceB x.2)) W).
have inW x : x \in W -> [/\ x.1 \in V, x.2 \in V & faceC x.2 = faceC x.1].
  by case/allpairsPdep => u [v [uin + ->]]; rewrite mem_filter => /andP[/eqP eqC vin].
apply: uniq_leq_size.
  rewrite map_inj_in_uniq // => -[[[i j] l] [[i1 j1] l1]] [[[i' j'] l'] [[i2 j2] l2]].
  case/inW => _ _ [<- <-]; case/inW => _ _ [<- <-].
  by rewrite /faceA /faceB /= => -[-> -> -> ->].
move=> _ /mapP[x /inW[in1 in2 _] ->].
by apply: allpairs_f; rewrite mem_undup map_f.
Qed.

(** ** Three numbers *)

Lemma am_gm_sorted a b c : a <= b -> b <= c -> 27 * (a * b * c) <= (a + b + c) ^ 3.
Proof.
move=> ab bc; rewrite -(subnKC bc) -(subnKC ab); move: (b - a) (c - (a + _)) => x y.
rewrite (_ : (a + (a + x) + (a + x + y)) ^ 3 = 27 * (a * (a + x) * (a + x + y)) +
   (9 * a * (x ^ 2 + x * y + y ^ 2) + (2 * x + y) ^ 3)) ?leq_addr //.
rewrite !(expnS, expn0, muln1); ring.
Qed.

Lemma am_gm a b c : 27 * (a * b * c) <= (a + b + c) ^ 3.
Proof.
pose P x y z := 27 * (x * y * z) <= (x + y + z) ^ 3; rewrite -/(P a b c).
have s12 x y z : P x y z -> P y x z by rewrite /P [y * x]mulnC [y + x]addnC.
have s23 x y z : P x y z -> P x z y by rewrite /P [x * z * y]mulnAC [x + z + y]addnAC.
have sorted x y z : x <= y -> y <= z -> P x y z by exact: am_gm_sorted.
have [ab|/ltnW ba] := leqP a b; have [bc|/ltnW cb] := leqP b c; have [ac|/ltnW ca] := leqP a c.
- exact: sorted.
- exact: sorted.
- by apply/s23/sorted.
- by apply/s23/s12/sorted.
- by apply/s12/sorted.
- by apply/s12/s23/sorted.
- by apply/s12/s23/s12/sorted => //; apply: leq_trans cb _.
by apply/s12/s23/s12/sorted.
Qed.
