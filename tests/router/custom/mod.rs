//! A router behind a webhook. What stands behind it here is a real `HAProxy`, so that users and calls are looked at, too.

mod answers;
mod counts;
mod example;
mod real;
pub mod server;

pub use self::real::RealCustom;

crate::conformance::conformance! { RealCustom:
    choices::a_change_of_shares_moves_exactly_the_users_that_must
    choices::users_are_known_by_a_header
    choices::a_header_asks_for_a_variation
    choices::three_variations_move_as_the_table_says
    choices::a_rollback_reaches_who_asks_by_header_in_the_same_step
    state::what_was_applied_is_read_back
    state::hundreds_of_services_are_read_back_and_change_without_a_reload
    state::to_apply_the_same_again_changes_nothing
    state::targets_lead_elsewhere_once_that_was_applied
    state::a_service_that_is_wanted_no_more_goes_wholly
    state::an_older_number_is_refused_also_after_both_were_started_anew
    state::a_refused_configuration_leaves_the_one_before_in_force
    state::what_belongs_to_others_stays_as_it_is
    state::what_was_changed_by_hand_is_seen_and_repaired
    state::what_was_left_over_is_listed
    faults::a_router_that_was_killed_comes_back_with_what_it_was_told
    faults::an_answer_that_nobody_waits_for_any_more_does_no_harm
    faults::a_second_process_is_refused
    faults::nonsense_is_told_from_answers_and_has_an_end
    faults::a_router_that_is_away_is_told_so
}
