(** What the theorems rest on; [tests/test_rocq.py] and [iosim prove] compare the
    answer with [assumptions.txt]. *)
From iosim Require Import theorems.
Print Assumptions product_words.
Print Assumptions attention_pairs_widths.
Print Assumptions attention_pairs.
Print Assumptions attention_heads.
Print Assumptions attention_causal.
Print Assumptions product_possible.
Print Assumptions attention_possible_widths.
Print Assumptions attention_possible.
Print Assumptions matrix_product_tight.
Print Assumptions matrix_product_irony.
Print Assumptions attention_once.
