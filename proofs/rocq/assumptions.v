(** What the theorems rest on; [tests/bounds/test_rocq.py] and [iosim prove] compare the
    answer with [assumptions.txt]. *)
From iosim Require Import theorems theorems_classes theorems_sweeps.
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
Print Assumptions trees_pairs_widths.
Print Assumptions trees_pairs.
Print Assumptions every_class_widths.
Print Assumptions every_class_pairs.
Print Assumptions product_every_class.
Print Assumptions class_sub.
Print Assumptions once_in_class.
Print Assumptions class_possible.
Print Assumptions matrix_product_every_class.
Print Assumptions attention_trees.
Print Assumptions attention_every_class.
Print Assumptions any_order_any_policy.
Print Assumptions equal_sweeps.
Print Assumptions lru_is_a_policy.
Print Assumptions cyclic_order.
Print Assumptions alternating_order.
Print Assumptions handed_over.
Print Assumptions growing_sets.
