(** * The model: what the theorems are about

    Nothing is proved in this file except that words can be compared.  A reader who
    believes the definitions below, and reads the statements in [theorems.v], need not read the rest.

    Slow memory has no limit, fast memory has room for [M] words.  A schedule is
    a list of operations.  A product [p] is executed as a multiply-add: its two
    operands and the accumulator [sum p] it is added to are words of fast
    memory.  Loads and stores cost 1 each, everything else is free. *)

From mathcomp Require Import all_ssreflect.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Machine.
Variables word product : eqType.

(** What is to be computed: words that lie in slow memory at the start, words
    that must lie there at the end, and products, each with the two words that
    are multiplied and the accumulator. *)
Record task := Task {
  inputs : seq word;
  outputs : seq word;
  products : seq product;
  left : product -> word;
  right : product -> word;
  sum : product -> word
}.

Inductive op :=
  | Load of word      (* copies a word from slow to fast memory: costs 1 *)
  | Store of word     (* copies a word from fast to slow memory: costs 1 *)
  | Drop of word      (* frees a word of fast memory *)
  | Do of product     (* [sum p] += [left p] * [right p] *)
  | Over of product & word.  (* the same, where the sum takes an operand's place *)

(** The words of fast memory, those whose latest value is in slow memory, and
    the products executed so far. *)
Record state := State {
  fast : seq word;
  slow : seq word;
  done : seq product
}.

Variables (M : nat) (t : task).

Definition start := State [::] (inputs t) [::].

(** An accumulator is started by its first product, and finished by its last. *)
Definition started (s : state) w := has (fun p => sum t p == w) (done s).
Definition finished (s : state) w :=
  all (fun p => (sum t p == w) ==> (p \in done s)) (products t).

(** A product is executed once, with both operands in fast memory.  An operand
    that is itself a sum is finished before it is used. *)
Definition ready (s : state) p :=
  [&& p \in products t, p \notin done s,
      left t p \in fast s, finished s (left t p),
      right t p \in fast s & finished s (right t p)].

(** Afterwards the value of its sum in slow memory, if any, is out of date. *)
Definition after (s : state) p ws :=
  State ws (filter (predC1 (sum t p)) (slow s)) (p :: done s).

(** One operation: [None] if it is not allowed.  A product is added to an
    accumulator in fast memory, or starts it, in a free word or in the place of
    an operand, which is lost. *)
Definition step (s : state) (o : op) : option state :=
  match o with
  | Load w =>
      if [&& w \in slow s, w \notin fast s & size (fast s) < M]
      then Some (State (w :: fast s) (slow s) (done s)) else None
  | Store w =>
      if w \in fast s
      then Some (State (fast s) (w :: slow s) (done s)) else None
  | Drop w =>
      if w \in fast s
      then Some (State (rem w (fast s)) (slow s) (done s)) else None
  | Do p =>
      let w := sum t p in
      if ready s p && ((w \in fast s) || ~~ started s w && (size (fast s) < M))
      then Some (after s p (if w \in fast s then fast s else w :: fast s)) else None
  | Over p x =>
      let w := sum t p in
      if [&& ready s p, x \in [:: left t p; right t p], w \notin fast s & ~~ started s w]
      then Some (after s p (w :: rem x (fast s))) else None
  end.

Fixpoint run (s : state) (ops : seq op) : option state :=
  if ops is o :: rest then
    if step s o is Some s' then run s' rest else None
  else Some s.

(** The schedule is allowed, executes all products, and leaves all outputs in
    slow memory. *)
Definition computes (ops : seq op) : bool :=
  if run start ops is Some s then
    all (mem (done s)) (products t) && all (mem (slow s)) (outputs t)
  else false.

Definition transfer (o : op) : bool :=
  match o with Load _ | Store _ => true | _ => false end.

(** Loads plus stores. *)
Definition cost (ops : seq op) : nat := count transfer ops.

End Machine.

Arguments Load {word product}.
Arguments Store {word product}.
Arguments Drop {word product}.
Arguments Do {word product}.
Arguments Over {word product}.

(** ** The product of an m x k and a k x n matrix *)

Inductive mword := A of nat & nat | B of nat & nat | C of nat & nat.
Inductive mproduct := Mul of nat & nat & nat.   (* C i j += A i l * B l j *)

Definition mword_code w : nat * (nat * nat) :=
  match w with A i l => (0, (i, l)) | B l j => (1, (l, j)) | C i j => (2, (i, j)) end.
Definition mword_decode (x : nat * (nat * nat)) :=
  match x with (0, (i, l)) => A i l | (1, (l, j)) => B l j | (_, (i, j)) => C i j end.
Lemma mword_codeK : cancel mword_code mword_decode. Proof. by case. Qed.
Canonical mword_eqType := EqType mword (CanEqMixin mword_codeK).

Definition mproduct_code p := let: Mul i j l := p in (i, (j, l)).
Definition mproduct_decode (x : nat * (nat * nat)) := Mul x.1 x.2.1 x.2.2.
Lemma mproduct_codeK : cancel mproduct_code mproduct_decode. Proof. by case. Qed.
Canonical mproduct_eqType := EqType mproduct (CanEqMixin mproduct_codeK).

Definition matrix_product (m n k : nat) : task mword_eqType mproduct_eqType :=
  {| inputs := [seq A i l | i <- iota 0 m, l <- iota 0 k]
               ++ [seq B l j | l <- iota 0 k, j <- iota 0 n];
     outputs := [seq C i j | i <- iota 0 m, j <- iota 0 n];
     products := [seq Mul ij.1 ij.2 l | ij <- [seq (i, j) | i <- iota 0 m, j <- iota 0 n],
                                        l <- iota 0 k];
     left := fun p => let: Mul i j l := p in A i l;
     right := fun p => let: Mul i j l := p in B l j;
     sum := fun p => let: Mul i j l := p in C i j |}.

(** ** Attention, class [once]

    [pairs] are the pairs (i, j) of a row i of Q and a row j of K and V whose
    score is made; Q and K have [d] columns, V and O have [dv].  [S i j] is the
    score of a pair, and the weight made from it, which takes its place.  [E i j c] is a product of the first kind,
    S i j += Q i c * K j c; [F i j l] one of the second, O i l += S i j * V j l,
    which has to wait until S i j is finished.  Maxima, exponentials, row sums
    and divisions cost nothing and take no space. *)

Inductive aword := Q of nat & nat | K of nat & nat | V of nat & nat
                 | S of nat & nat | O of nat & nat.
Inductive aproduct := E of nat & nat & nat | F of nat & nat & nat.

Definition aword_code w : nat * (nat * nat) :=
  match w with Q i c => (0, (i, c)) | K j c => (1, (j, c)) | V j l => (2, (j, l))
             | S i j => (3, (i, j)) | O i l => (4, (i, l)) end.
Definition aword_decode (x : nat * (nat * nat)) :=
  match x with (0, (i, c)) => Q i c | (1, (j, c)) => K j c | (2, (j, l)) => V j l
             | (3, (i, j)) => S i j | (_, (i, l)) => O i l end.
Lemma aword_codeK : cancel aword_code aword_decode. Proof. by case. Qed.
Canonical aword_eqType := EqType aword (CanEqMixin aword_codeK).

Definition aproduct_code p : bool * (nat * (nat * nat)) :=
  match p with E i j c => (true, (i, (j, c))) | F i j l => (false, (i, (j, l))) end.
Definition aproduct_decode (x : bool * (nat * (nat * nat))) :=
  let: (b, (i, (j, c))) := x in if b then E i j c else F i j c.
Lemma aproduct_codeK : cancel aproduct_code aproduct_decode. Proof. by case. Qed.
Canonical aproduct_eqType := EqType aproduct (CanEqMixin aproduct_codeK).

Definition attention_widths (pairs : seq (nat * nat)) (d dv : nat)
    : task aword_eqType aproduct_eqType :=
  {| inputs := [seq Q ij.1 c | ij <- pairs, c <- iota 0 d]
               ++ [seq K ij.2 c | ij <- pairs, c <- iota 0 d]
               ++ [seq V ij.2 l | ij <- pairs, l <- iota 0 dv];
     outputs := [seq O ij.1 l | ij <- pairs, l <- iota 0 dv];
     products := [seq E ij.1 ij.2 c | ij <- pairs, c <- iota 0 d]
                 ++ [seq F ij.1 ij.2 l | ij <- pairs, l <- iota 0 dv];
     left := fun p => match p with E i j c => Q i c | F i j l => S i j end;
     right := fun p => match p with E i j c => K j c | F i j l => V j l end;
     sum := fun p => match p with E i j c => S i j | F i j l => O i l end |}.

Definition attention pairs d := attention_widths pairs d d.

(** All pairs of H heads of N rows each; row i of head h is row h * N + i.  A
    causal mask, as one example of other sets of pairs. *)
Definition heads (H N : nat) : seq (nat * nat) :=
  [seq (h * N + ij.1, h * N + ij.2)
    | h <- iota 0 H, ij <- [seq (i, j) | i <- iota 0 N, j <- iota 0 N]].
Definition causal (N : nat) : seq (nat * nat) :=
  [seq (i, j) | i <- iota 0 N, j <- iota 0 i.+1].
