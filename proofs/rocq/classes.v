(** * The model of the four classes: sums by trees, and recomputation

    The machine of [model.v] again, for schedules in which a sum may have
    many partial sums.  Nothing is proved in this file.

    A value is an input, or a partial sum: the word that it is a part of, and the
    products that are its terms.  Each copy of a value that is in fast memory
    takes one word there.  Slow memory has no limit, and keeps all that was
    written to it.  Reads and writes cost 1 each, everything else is free. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** May a product be executed again?  May partial sums be added to each other? *)
Record class := Class { again : bool; adds : bool }.
Definition single := Class false false.            (* [once] *)
Definition recompute := Class true false.
Definition trees := Class false true.
Definition recompute_trees := Class true true.

Section Machine.
Variables word product : eqType.

Definition value := (word + word * seq product)%type.
Definition Input w : value := inl w.
Definition Part w T : value := inr (w, T).

(** Where there is an [option value], it is the place of the result: over a word
    of fast memory, which may be an operand, or in a free word. *)
Inductive move :=
  | Read of value       (* copies a value from slow to fast memory: costs 1 *)
  | Write of value      (* copies a value from fast to slow memory: costs 1 *)
  | Free of value       (* frees a word of fast memory *)
  | Copy of value & option value          (* copies a value in fast memory *)
  | Mul of product & seq product & option value
                        (* executes a product, and adds it to the partial sum of these terms, if any *)
  | Add of word & seq product & seq product & option value.  (* adds two partial sums *)

(** The values in fast memory, those in slow memory, and the products executed so far. *)
Record memory := Memory { near : seq value; far : seq value; past : seq product }.

Variables (c : class) (M : nat) (t : task word product).

Definition begin := Memory [::] (map Input (inputs t)) [::].

(** A word can be used as an operand, or is the output asked for, if it is an input
    or a sum that has all its terms. *)
Definition whole w (v : value) :=
  match v with
  | inl u => u == w
  | inr (u, T) => (u == w) && all (fun p => (sum t p == w) ==> (p \in T)) (products t)
  end.

Definition put (m : memory) (over : option value) (v : value) (ps : seq product) :=
  if over is Some x
  then if x \in near m then Some (Memory (v :: rem x (near m)) (far m) ps) else None
  else if size (near m) < M then Some (Memory (v :: near m) (far m) ps) else None.

(** One move: [None] if it is not allowed. *)
Definition go (m : memory) (o : move) : option memory :=
  match o with
  | Read v => if v \in far m then put m None v (past m) else None
  | Write v => if v \in near m then Some (Memory (near m) (v :: far m) (past m)) else None
  | Free v => if v \in near m then Some (Memory (rem v (near m)) (far m) (past m)) else None
  | Copy v x => if v \in near m then put m x v (past m) else None
  | Mul p T x =>
      if [&& p \in products t, again c || (p \notin past m),
             has (whole (left t p)) (near m), has (whole (right t p)) (near m),
             p \notin T & (T == [::]) || (Part (sum t p) T \in near m)]
      then put m x (Part (sum t p) (p :: T)) (p :: past m) else None
  | Add w T U x =>
      if [&& adds c, Part w T \in near m, Part w U \in near m & ~~ has (mem T) U]
      then put m x (Part w (T ++ U)) (past m) else None
  end.

Fixpoint moves (m : memory) (ops : seq move) : option memory :=
  if ops is o :: rest then
    if go m o is Some m' then moves m' rest else None
  else Some m.

(** The schedule is allowed, and leaves all outputs in slow memory. *)
Definition attains (ops : seq move) : bool :=
  if moves begin ops is Some m then all (fun w => has (whole w) (far m)) (outputs t) else false.

(** Reads plus writes. *)
Definition traffic (ops : seq move) : nat :=
  count (fun o => match o with Read _ | Write _ => true | _ => false end) ops.

End Machine.

Arguments Read {word product}.
Arguments Write {word product}.
Arguments Free {word product}.
Arguments Copy {word product}.
Arguments Mul {word product}.
Arguments Add {word product}.
