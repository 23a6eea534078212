(** * The order of sweeps: the theorems

    The definitions of [sweeps.v], from [allowed] to [growing], and these statements
    are what a reader has to believe; the rest is checked. *)

From mathcomp Require Import all_ssreflect.
From iosim Require Import sweeps.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** ** Any order of each sweep, any policy *)

Theorem any_order_any_policy (T : eqType) C (sets : seq (seq T)) runs :
  sweeps_over sets runs -> valid C [::] (flatten runs) ->
  least C [::] sets <= misses [::] (flatten runs).
Proof. exact: least_missed. Qed.

Theorem equal_sweeps (T : eqType) C n (items : seq T) runs :
  sweeps_over (nseq n.+1 items) runs -> valid C [::] (flatten runs) ->
  size items + n * (size items - C) <= misses [::] (flatten runs).
Proof. exact: alternate_bound. Qed.

(** ** LRU *)

Theorem lru_is_a_policy (T : eqType) C (items : seq T) : valid C [::] (lru_run C [::] items).
Proof. exact: lru_valid. Qed.

Theorem cyclic_order (T : eqType) C n (q : seq T) : uniq q -> C < size q ->
  misses [::] (lru_run C [::] (flatten (nseq n q))) = n * size q.
Proof. exact: cyclic_misses. Qed.

Theorem alternating_order (T : eqType) C n (q : seq T) : uniq q -> C <= size q ->
  misses [::] (lru_run C [::] (flatten (alternate n.+1 q))) = size q + n * (size q - C).
Proof. exact: alternate_misses. Qed.

Theorem handed_over (T : eqType) C (qs : seq (seq T)) : handed C [::] qs ->
  misses [::] (lru_run C [::] (flatten qs)) = least C [::] qs.
Proof. exact: handed_misses. Qed.

Theorem growing_sets (T : eqType) C (q : seq T) news : uniq (q ++ flatten news) -> C <= size q ->
  misses [::] (lru_run C [::] (flatten (growing q news))) = least C [::] (growing q news).
Proof. exact: growing_misses. Qed.
