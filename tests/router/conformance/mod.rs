//! What each kind of router has to do, whatever it is written in. `conformance!` makes the tests of one.

pub mod adopts;
pub mod choices;
pub mod connections;
pub mod drains;
pub mod faults;
pub mod measured;
pub mod operators;
pub mod routes;
pub mod state;
pub mod users;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc};

use router::log_line::LogPath;
use router::{Router, measure::Measure};
use traffic::{
    HashFunction, RouterKind,
    desired::{DesiredConfig, Protocol},
    observed::differences,
};

use crate::world::{liar::Door, place, tls::Identity};

/// A real router in a folder and on ports of its own, which serves; nothing of ours is in it yet. It ends when it is dropped.
pub trait Real: Sized + Send + Sync {
    const KIND: RouterKind;
    /// The function by which it draws users.
    const HASH: HashFunction;
    /// Other services, targets or rules have it load its configuration anew.
    const RELOADS: bool = true;
    /// A change of shares alone has it load its configuration anew.
    fn reloads_for_shares(_: Protocol) -> bool {
        false
    }

    /// What it tells of so many connections that go on.
    fn reported(_: Protocol, connections: u64) -> u64 {
        connections
    }

    /// So many services are led at once.
    const MANY: usize = 400;
    /// So many changes of shares, or a part of them, are made while calls are counted.
    const CHANGES: u32 = 10_000;
    /// How the lines of an adopted service say that ours come to its configuration.
    const LED_BY: &'static str;

    async fn start() -> Self;

    /// One that sends a line of each call once, for tests that count them.
    async fn start_logging_exactly() -> Self {
        Self::start().await
    }

    /// What leads it, as a program that was started anew opens it.
    fn open(&self) -> Arc<dyn Router>;

    /// What leads it and has it log its calls there, so that they are counted; no other site is served beside.
    fn open_logging(&self, log: &LogPath, measure: Option<&Arc<Measure>>) -> Arc<dyn Router>;

    /// The same of a program that is killed: after `steps` of what it does to files, sockets and processes, each further one
    /// fails and does nothing. None where it can't be had so.
    fn open_dying(&self, steps: u64) -> Option<Arc<dyn Router>>;

    /// Ends all its processes at once, by SIGKILL.
    async fn kill(&mut self);

    /// Starts it anew as its service manager would, after a kill or in place of the one that runs, and waits until it serves.
    async fn start_again(&mut self);

    /// Gives half of what a variation of this service has to others, behind the back of who leads it.
    async fn meddle(&self, service: &str);

    /// Has it take none of the targets of B to be there, which refuse connections, behind the back of who leads it.
    async fn take_out(&self, service: &str);

    /// Puts something there that is marked as ours and that nobody wanted. Gives the word by which it is listed.
    async fn leave_over(&self) -> String;

    /// Makes the router's own check refuse its configuration, through a part that isn't ours; and mends it.
    fn spoil(&self, is_spoiled: bool);

    /// Has its operator's configuration, which it reads at its next start, serve this from a target at a port of the loopback address.
    fn serve_besides(&self, name: &str, port: u16, target: &str);

    /// Has its operator's configuration, which it reads at its next start, serve two sites: one of static files, and one with a path
    /// that goes to a target.
    fn serve_sites(&self, sites: &operators::Sites, target: &str);

    /// Files of the router that aren't ours.
    fn of_others(&self) -> BTreeMap<PathBuf, Vec<u8>>;

    /// What is ours of the configuration on disk: what the router would start with, without notes for ourselves.
    fn on_disk(&self) -> BTreeMap<PathBuf, Vec<u8>>;

    /// Where it is asked.
    fn door(&self) -> Door;

    /// Whom callers of HTTPS find there.
    fn identity(&self) -> &Identity {
        panic!("no such router is led for TLS")
    }

    /// A port that a service of it may have.
    fn port(&self) -> u16 {
        place::free_port()
    }

    /// A port that a service of this protocol may have.
    fn port_of(&self, _: Protocol) -> u16 {
        self.port()
    }

    /// The answer to these bytes over TLS.
    async fn over_tls(&self, at: SocketAddr, call: &str) -> String {
        self.identity().call(at, "here.example", call).await
    }

    /// Where its service on this port takes calls.
    fn at(&self, port: u16) -> SocketAddr {
        place::at(port)
    }
}

/// Waits until the router does what it is to do, and fails with what is different if it never does.
pub async fn comes_true(router: &Arc<dyn Router>, wanted: &DesiredConfig) {
    let mut last = String::new();
    for _ in 0..6_000 {
        match router.read().await {
            Ok(seen) => {
                let differ = differences(wanted, &seen);
                if differ.is_empty() {
                    return;
                }
                last = format!("{differ:?}");
            }
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it never does what it was told: {last}");
}

/// Has it do this, and sees that it does.
pub async fn done(router: &Arc<dyn Router>, wanted: &DesiredConfig) -> router::Applied {
    let applied = router.apply(wanted).await.unwrap();
    assert_eq!(applied.number, wanted.number);
    comes_true(router, wanted).await;
    applied
}

macro_rules! conformance {
    ($real:ty) => {
        $crate::conformance::conformance! { $real, of lines alone }
        $crate::conformance::conformance! { $real:
            measured::lines_that_are_lost_are_known_and_nothing_is_said_of_their_interval
            measured::a_call_whose_line_comes_late_is_one_call_and_no_lost_one
        }
    };
    // One that doesn't count its calls itself.
    ($real:ty, of lines alone) => {
        $crate::conformance::conformance! { $real:
            choices::a_change_of_shares_moves_exactly_the_users_that_must
            choices::users_are_known_by_a_header
            choices::users_are_known_by_their_address
            choices::who_has_no_cookie_is_given_one_that_stays_with_a_variation
            choices::calls_without_a_key_are_drawn_each_by_itself
            choices::a_header_asks_for_a_variation
            choices::a_rollback_reaches_who_asks_by_header_in_the_same_step
            choices::three_variations_move_as_the_table_says
            choices::services_whose_names_are_alike_are_told_apart
            choices::where_a_call_comes_from_is_passed_on
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
            adopts::a_service_of_the_operators_is_adopted_from_its_configuration
            operators::what_the_operator_serves_is_the_same_before_and_after
            operators::a_port_that_the_operator_has_written_down_and_not_loaded_yet_is_theirs
            routes::a_call_is_the_services_that_names_its_host_and_the_longest_path
            routes::a_change_of_shares_of_one_leaves_the_other_at_its_port_as_it_was
            routes::users_of_two_services_at_a_host_stay_where_they_are
            connections::connections_are_split_by_the_address_that_they_come_from
            connections::connections_without_a_key_are_drawn_each_by_itself
            connections::connections_that_come_while_shares_change_are_all_answered
            connections::whoever_says_that_nothing_more_will_come_is_answered_all_the_same
            drains::calls_that_go_on_are_counted_also_in_processes_that_were_replaced
            faults::a_router_that_was_killed_comes_back_with_what_it_was_told
            faults::whoever_is_killed_in_the_middle_is_followed_by_one_that_ends_it
            faults::an_answer_that_nobody_waits_for_any_more_does_no_harm
            faults::a_second_process_is_refused
            faults::nonsense_is_told_from_answers_and_has_an_end
            faults::a_router_that_is_away_is_told_so
            measured::calls_are_counted_by_how_they_ended
            measured::calls_without_a_target_are_counted_apart
            measured::connections_are_counted_by_how_they_ended
            measured::nobody_waits_for_a_line_whatever_becomes_of_it
            measured::a_call_is_in_the_split_by_which_it_was_given_out
            users::exactly_those_users_move_who_must_and_shares_of_users_are_those_wanted
        }
    };
    ($real:ty: $($module:ident :: $name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::conformance::$module::$name::<$real>().await;
            }
        )*
    };
}
pub(crate) use conformance;
