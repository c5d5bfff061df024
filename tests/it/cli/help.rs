//! What the program says about itself.

use super::{code, err, out, run};

pub fn help(args: &[&str]) -> String {
    let output = run(std::env::temp_dir().as_path(), args);
    assert_eq!(code(&output), 0, "{}", err(&output));
    out(&output)
}

#[test]
fn the_help_names_every_command() {
    insta::assert_snapshot!(help(&["--help"]), @r#"
    Release functions to children from the edge to the cloud, stage by stage, and take back what is bad

    Usage: choirmaster <COMMAND>

    Commands:
      serve         Run the release manager
      demo          Show what it does: a manager with 20 simulated children, then a tree of managers,
                    and sample releases one after the other; then real functions on two real agents
      init          Write files to begin with: of a function, a service, an agent or a manager
      validate      Check release strategies and report every fault with its place
      schema        Print the JSON Schema of a release strategy
      plan          Show who would take part in a release and in which wave, and why the others would
                    not
      analyse       Judge a canary against a baseline, on samples in files
      status        Show how the manager stands: what somebody has to look at, the most urgent first,
                    and the command that helps
      release       Submit, watch and steer releases
      canary        Look at canaries of registered releases
      children      Look at the children, and decide what they take part in
      deployments   Show which version of which function runs at which child
      router        Look at routers, and have them checked, repaired or reloaded
      service       Look at services, take one over that a router leads already, or take one out
      traffic       Show who gets what: as wanted, as routers were seen to do, and as calls were counted
      environment   Say where services take calls, by names that A/B releases use
      target-group  Say who runs variations, by names that A/B releases use
      version       Say which versions there are, by names that A/B releases use
      workflow      Keep the functions of a workflow running on machines that may run them
      intent        Move functions by their logical ids, and cordon nodes, as programs do
      audit         Show the audit trail, oldest first
      tenant        Say who shares the manager, and how much of it each may take
      store         Look into a store, back it up, or move it to another database
      fleet         Run simulated children against a release manager, or a whole tree of managers with
                    children
      proxy         Share calls among the versions of services, by a table, and lose none
      agent         Run functions beside a node, take releases from a manager, and take back what is bad
      context       Keep managers by name: address, token file and authorities
      completions   Print the completions of a shell
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Try it: choirmaster demo

    Exit codes: 0 done, 1 the caller's fault, 2 the program's or the manager's;
    release watch and release submit --wait also tell how the release ended, status whether
    something is urgent.
    "#);
}

#[test]
fn the_help_of_release_names_every_verb() {
    insta::assert_snapshot!(help(&["release", "--help"]), @r"
    Submit, watch and steer releases

    Usage: choirmaster release <COMMAND>

    Commands:
      submit           Submit a release
      import           Take over releases from folders that hold release.yml and fns.zip, one release
                       each
      list             List releases, newest first
      show             Show a release: its stages, its children, and what each of them waits for
      watch            Follow a release to its end; the exit code tells how it ended
      logs             Show what versions wrote that failed in a release
      diff             Show what differs between the strategies of two releases
      pause            Hold a release: no stage is ended and nothing new is handed out; what children
                       have in hand goes on
      resume           Let a paused release go on
      abort            End a release and bring every child that may run the new version back to the base
                       version
      rollback         Put back what ran before a release that is over [alias: undo]
      approve          Say yes to the wave, the stage or the roll-out that a release waits for
      promote          Open what is left of waves, stages, soaks and approvals, or only what comes next
      extend           Take in the children that could take part and were not there when a release
                       started
      extend-analysis  Let an analysis that ended undecided go on
      skip             Take one child out of a release: nobody waits for it any more
      retry            Offer a release that is over again to the children that failed
      end-stage        Tell all children that run a stage to end it now
      skip-stage       Let children pass over a stage that they have not begun, and end it for those
                       that are in it
      help             Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    ");
}

#[test]
fn every_command_has_a_help_and_those_that_wait_tell_their_exit_codes() {
    for command in [
        "serve",
        "demo",
        "init",
        "validate",
        "schema",
        "analyse",
        "children",
        "deployments",
        "status",
        "audit",
        "environment",
        "target-group",
        "version",
        "intent",
        "tenant",
        "store",
        "fleet",
        "proxy",
        "agent",
        "context",
        "completions",
    ] {
        assert!(help(&[command, "--help"]).contains("Usage: choirmaster"), "{command}");
    }
    for verb in ["submit", "watch", "rollback"] {
        assert!(help(&["release", verb, "--help"]).contains("3 DoneWithFailures"), "{verb}");
    }
    assert!(help(&["status", "--help"]).contains("Exit codes: 0 nothing is urgent, 3 something is"));
}

#[test]
fn a_command_line_that_is_none_is_the_callers_fault() {
    for args in [&["nonsense"][..], &["serve", "--nonsense"], &["release", "show"], &[]] {
        let output = run(std::env::temp_dir().as_path(), args);
        assert_eq!((code(&output), out(&output)), (1, String::new()), "{args:?}");
        assert!(err(&output).contains("Usage: choirmaster"), "{args:?}: {}", err(&output));
    }
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = help(&["completions", shell]);
        assert!(completions.contains("end-stage") && completions.contains("deployments"), "{shell}");
    }
}

#[test]
fn the_help_names_every_state_by_which_releases_are_listed() {
    let text = help(&["release", "list", "--help"]);
    for state in domain::release::state::ReleaseState::NAMES {
        assert!(text.split([' ', ',', '\n']).any(|word| word == state), "{state}:\n{text}");
    }
}

#[test]
fn the_help_names_every_outcome_by_which_children_are_shown() {
    let text = help(&["release", "show", "--help"]);
    for outcome in model::Outcome::NAMES {
        assert!(text.split([' ', ',', '\n']).any(|word| word == *outcome), "{outcome}:\n{text}");
    }
}
