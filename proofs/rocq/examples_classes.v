(** * Schedules that are in one class, and in no smaller one *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model classes.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Notation inp w := (Input aproduct_eqType (w : aword_eqType)).
Local Notation part w T := (Part (w : aword_eqType) (T : seq aproduct_eqType)).
Local Notation ops := (seq (move aword_eqType aproduct_eqType)).
Local Notation one := (attention [:: (0, 0)] 2).
Local Notation e b := (E 0 0 b : aproduct_eqType).
Local Notation f l := (F 0 0 l : aproduct_eqType).

(** Two words are enough where products take an operand's place and their sums are
    added: no accumulator in addition to two factors. *)
Definition in_two_words : ops :=
  [:: Read (inp (Q 0 0)); Read (inp (K 0 0)); Mul (e 0) [::] (Some (inp (Q 0 0)));
      Write (part (S 0 0) [:: e 0]); Free (part (S 0 0) [:: e 0]); Free (inp (K 0 0));
      Read (inp (Q 0 1)); Read (inp (K 0 1)); Mul (e 1) [::] (Some (inp (Q 0 1)));
      Free (inp (K 0 1)); Read (part (S 0 0) [:: e 0]);
      Add (S 0 0) [:: e 0] [:: e 1] (Some (part (S 0 0) [:: e 0]));
      Free (part (S 0 0) [:: e 1]);
      Read (inp (V 0 0)); Mul (f 0) [::] (Some (inp (V 0 0)));
      Write (part (O 0 0) [:: f 0]); Free (part (O 0 0) [:: f 0]);
      Read (inp (V 0 1)); Mul (f 1) [::] (Some (inp (V 0 1))); Write (part (O 0 1) [:: f 1])].

Example in_two_words_attains : [&& attains trees 2 one in_two_words,
  attains recompute_trees 2 one in_two_words, traffic in_two_words == 10,
  ~~ attains recompute 2 one in_two_words & ~~ attains trees 1 one in_two_words].
Proof. by vm_compute. Qed.

(** A score that is forgotten, and made again for the other column. *)
Definition score (over : option (value aword_eqType aproduct_eqType)) : ops :=
  [:: Read (inp (Q 0 0)); Read (inp (K 0 0)); Mul (e 0) [::] over; Free (inp (Q 0 0)); Free (inp (K 0 0));
      Read (inp (Q 0 1)); Read (inp (K 0 1));
      Mul (e 1) [:: e 0] (Some (part (S 0 0) [:: e 0])); Free (inp (Q 0 1)); Free (inp (K 0 1))].
Definition column l : ops :=
  [:: Read (inp (V 0 l)); Mul (f l) [::] (Some (part (S 0 0) [:: e 1; e 0]));
      Write (part (O 0 l) [:: f l]); Free (part (O 0 l) [:: f l]); Free (inp (V 0 l))].
Definition made_again : ops := score None ++ column 0 ++ score None ++ column 1.

Example made_again_attains : [&& attains recompute 3 one made_again,
  attains recompute_trees 3 one made_again, traffic made_again == 12,
  ~~ attains trees 3 one made_again & ~~ attains recompute 2 one made_again].
Proof. by vm_compute. Qed.

(** A score cannot be made whole by a term that is counted twice. *)
Example not_twice : ~~ attains recompute_trees 3 one
  [seq if o is Mul (E _ _ 1) T x then Mul (e 0) T x else o | o <- made_again].
Proof. by vm_compute. Qed.
