//! A load balancer of AWS's, whose API is moto, and whose calls are sent on by the tests themselves ([`plane`]).
//!
//! What isn't tried of the conformance suite, since AWS has no such thing: users by keys of theirs (it draws them by itself), the table of
//! buckets, cookies of another name, and so two services at one host that both keep their users (that is refused: [`rules`]), values of headers with their case, a configuration that is refused as a whole, static sites, a port
//! that goes, connections and lines of calls, loads anew, and changes of several rules in one step.

mod aws;
mod changes;
mod moto;
mod plane;
mod real;
mod rules;
mod trouble;

pub use self::real::RealAlb;

crate::conformance::conformance! { RealAlb:
    choices::calls_without_a_key_are_drawn_each_by_itself
    choices::services_whose_names_are_alike_are_told_apart
    state::hundreds_of_services_are_read_back_and_change_without_a_reload
    state::to_apply_the_same_again_changes_nothing
    state::targets_lead_elsewhere_once_that_was_applied
    state::an_older_number_is_refused_also_after_both_were_started_anew
    state::what_was_changed_by_hand_is_seen_and_repaired
    state::what_was_left_over_is_listed
    routes::a_call_is_the_services_that_names_its_host_and_the_longest_path
    routes::a_change_of_shares_of_one_leaves_the_other_at_its_port_as_it_was
    adopts::a_service_of_the_operators_is_adopted_from_its_configuration
    faults::a_router_that_was_killed_comes_back_with_what_it_was_told
    faults::whoever_is_killed_in_the_middle_is_followed_by_one_that_ends_it
    faults::an_answer_that_nobody_waits_for_any_more_does_no_harm
    faults::nonsense_is_told_from_answers_and_has_an_end
    faults::a_router_that_is_away_is_told_so
}
