(** * Schedules that compute, so the theorems are not vacuous

    Optimal ones of the pebble solver; [tests/bounds/test_rocq.py] compares the costs. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import model.

Definition product_3 : seq (op mword_eqType mproduct_eqType) :=
  [::
     Load (A 0 0); Load (B 0 0); Do (Mul 0 0 0); Drop (A 0 0); Drop (B 0 0);
     Load (A 0 1); Load (B 1 0); Do (Mul 0 0 1); Store (C 0 0); Drop (C 0
     0); Drop (A 0 1); Load (A 1 1); Do (Mul 1 0 1); Drop (B 1 0); Drop (A 1
     1); Load (A 1 0); Load (B 0 0); Do (Mul 1 0 0); Store (C 1 0); Drop (B
     0 0); Drop (C 1 0); Load (B 0 1); Do (Mul 1 1 0); Drop (A 1 0); Drop (B
     0 1); Load (A 1 1); Load (B 1 1); Do (Mul 1 1 1); Store (C 1 1); Drop
     (A 1 1); Drop (C 1 1); Load (A 0 1); Do (Mul 0 1 1); Drop (A 0 1); Drop
     (B 1 1); Load (A 0 0); Load (B 0 1); Do (Mul 0 1 0); Store (C 0 1);
     Drop (A 0 0); Drop (B 0 1); Drop (C 0 1)].

Example product_3_computes :
  computes 3 (matrix_product 2 2 2) product_3 && (cost product_3 == 17).
Proof. by vm_compute. Qed.

Definition product_4 : seq (op mword_eqType mproduct_eqType) :=
  [::
     Load (A 0 0); Load (B 0 0); Do (Mul 0 0 0); Drop (A 0 0); Load (A 0 1);
     Load (B 1 0); Do (Mul 0 0 1); Store (C 0 0); Drop (C 0 0); Drop (A 0
     1); Load (A 1 0); Do (Mul 1 0 0); Drop (B 0 0); Load (A 1 1); Do (Mul 1
     0 1); Store (C 1 0); Drop (B 1 0); Drop (C 1 0); Load (B 0 1); Do (Mul
     1 1 0); Drop (A 1 0); Load (B 1 1); Do (Mul 1 1 1); Store (C 1 1); Drop
     (A 1 1); Drop (C 1 1); Load (A 0 0); Do (Mul 0 1 0); Drop (A 0 0); Drop
     (B 0 1); Load (A 0 1); Do (Mul 0 1 1); Store (C 0 1); Drop (A 0 1);
     Drop (B 1 1); Drop (C 0 1)].

Example product_4_computes :
  computes 4 (matrix_product 2 2 2) product_4 && (cost product_4 == 14).
Proof. by vm_compute. Qed.

Definition attention_3 : seq (op aword_eqType aproduct_eqType) :=
  [::
     Load (Q 0 0); Load (K 0 0); Do (E 0 0 0); Drop (K 0 0); Store (S 0 0);
     Drop (S 0 0); Load (K 1 0); Do (E 0 1 0); Drop (Q 0 0); Drop (K 1 0);
     Load (V 1 0); Do (F 0 1 0); Drop (S 0 1); Drop (V 1 0); Load (S 0 0);
     Load (V 0 0); Do (F 0 0 0); Store (O 0 0); Drop (S 0 0); Drop (O 0 0);
     Drop (V 0 0); Load (Q 1 0); Load (K 0 0); Do (E 1 0 0); Drop (K 0 0);
     Store (S 1 0); Drop (S 1 0); Load (K 1 0); Do (E 1 1 0); Drop (K 1 0);
     Drop (Q 1 0); Load (V 1 0); Do (F 1 1 0); Drop (S 1 1); Drop (V 1 0);
     Load (S 1 0); Load (V 0 0); Do (F 1 0 0); Store (O 1 0); Drop (S 1 0);
     Drop (O 1 0); Drop (V 0 0)].

Example attention_3_computes :
  computes 3 (attention (heads 1 2) 1) attention_3 && (cost attention_3 == 16).
Proof. by vm_compute. Qed.

Definition attention_4 : seq (op aword_eqType aproduct_eqType) :=
  [::
     Load (Q 0 0); Load (K 0 0); Do (E 0 0 0); Drop (K 0 0); Load (V 0 0);
     Do (F 0 0 0); Drop (S 0 0); Drop (V 0 0); Load (K 1 0); Do (E 0 1 0);
     Drop (Q 0 0); Load (V 1 0); Do (F 0 1 0); Store (O 0 0); Drop (S 0 1);
     Drop (O 0 0); Load (Q 1 0); Do (E 1 1 0); Drop (K 1 0); Do (F 1 1 0);
     Drop (S 1 1); Drop (V 1 0); Load (K 0 0); Do (E 1 0 0); Drop (K 0 0);
     Drop (Q 1 0); Load (V 0 0); Do (F 1 0 0); Store (O 1 0); Drop (S 1 0);
     Drop (O 1 0); Drop (V 0 0)].

Example attention_4_computes :
  computes 4 (attention (heads 1 2) 1) attention_4 && (cost attention_4 == 10).
Proof. by vm_compute. Qed.

(** Two words are enough where a result takes the place of an operand. *)
Example over_operands :
  [&& computes 2 (attention (heads 1 1) 1)
        [:: Load (Q 0 0); Load (K 0 0); Over (E 0 0 0) (K 0 0); Drop (Q 0 0); Load (V 0 0);
            Over (F 0 0 0) (S 0 0); Store (O 0 0)],
      computes 2 (matrix_product 1 1 1)
        [:: Load (A 0 0); Load (B 0 0); Over (Mul 0 0 0) (A 0 0); Store (C 0 0)] &
      ~~ computes 2 (matrix_product 1 1 1)
        [:: Load (A 0 0); Load (B 0 0); Do (Mul 0 0 0); Store (C 0 0)]].
Proof. by vm_compute. Qed.

(** With a word of memory less, or a transfer left out, they do not. *)
Example product_refused :
  ~~ computes 3 (matrix_product 2 2 2) product_4
  && all (fun k => ~~ computes 4 (matrix_product 2 2 2) (take k product_4 ++ drop k.+1 product_4))
         [seq k <- iota 0 (size product_4) | transfer (nth (Drop (A 0 0)) product_4 k)].
Proof. by vm_compute. Qed.

Example attention_refused :
  ~~ computes 3 (attention (heads 1 2) 1) attention_4
  && all (fun k => ~~ computes 4 (attention (heads 1 2) 1) (take k attention_4 ++ drop k.+1 attention_4))
         [seq k <- iota 0 (size attention_4) | transfer (nth (Drop (Q 0 0)) attention_4 k)].
Proof. by vm_compute. Qed.
