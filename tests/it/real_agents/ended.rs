//! Nothing of an agent's folder runs after `choirmaster agent stop --all`, whatever of it was dead before, and all else goes on.

use std::{fs, path::Path, process::Output};

use super::{node::Node, processes, serving::Behaviour::Good, site::Site, wait::wait_until};

/// What is dead, or stands still, when it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    AgentStandsStill,
    Agent,
    AgentAndShim,
    AgentAndSupervisor,
    AgentAndProxy,
}

impl Before {
    const ALL: [Self; 6] = [
        Self::Nothing,
        Self::AgentStandsStill,
        Self::Agent,
        Self::AgentAndShim,
        Self::AgentAndSupervisor,
        Self::AgentAndProxy,
    ];

    fn strike(self, node: &mut Node) {
        match self {
            Self::Nothing => return,
            Self::AgentStandsStill => return node.freeze(),
            // First, since it starts again what else dies.
            Self::Agent | Self::AgentAndShim | Self::AgentAndSupervisor | Self::AgentAndProxy => node.kill(),
        }
        let others = match self {
            Self::AgentAndShim => vec![node.shim().unwrap()],
            Self::AgentAndSupervisor => vec![node.holder().unwrap()],
            Self::AgentAndProxy => {
                // The supervisor before the process that it would start again.
                let holder = node.holder().unwrap();
                let all = node.proxy_processes().into_iter().map(|one| one.pid);
                [holder].into_iter().chain(all.filter(|pid| *pid != holder)).collect()
            }
            Self::Nothing | Self::AgentStandsStill | Self::Agent => Vec::new(),
        };
        for pid in others {
            assert!(processes::kill(pid), "{self:?}");
        }
    }
}

fn stop(node: &Node) -> Output {
    let state = node.folder.join("state");
    node.run(&["agent", "stop", "--all", "--state", state.to_str().unwrap()])
}

/// What it has printed, once it is known that it went well.
fn printed(output: Output) -> String {
    let (out, err) = (output.stdout, output.stderr);
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    String::from_utf8(out).unwrap()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_an_agents_folder_runs_after_a_stop_of_all_and_all_else_goes_on() {
    let mut site = Site::start().await;
    let version = site.version(Good);
    let other = site.node("other", &[]).await;
    other.add(&site.content(&version));
    for (number, before) in Before::ALL.into_iter().enumerate() {
        let mut node = site.node(&format!("edge{number}"), &[]).await;
        node.add(&site.content(&version));
        before.strike(&mut node);
        let said = printed(stop(&node));
        // A shim that has answered is about to end.
        let nobody = async || processes::with(node.folder.to_str().unwrap()).is_empty();
        wait_until(&format!("nothing runs, {before:?}: {said}"), nobody).await;
        assert!(is_empty(&node.folder.join("state/run/runs")), "{before:?}: {said}");
        for socket in ["agent.sock", "proxy.sock"] {
            assert!(!node.folder.join(socket).exists(), "{before:?}: {socket} is left\n{said}");
        }
        let has = |text: &str| said.lines().any(|line| line.contains(text));
        assert!(has(" of a has ended"), "{before:?}: its version\n{said}");
        let is_agent_there = matches!(before, Before::Nothing | Before::AgentStandsStill);
        assert_eq!(has("the agent has ended (process "), is_agent_there, "{before:?}\n{said}");
        assert_eq!(
            has("the proxy has ended (process "),
            before != Before::AgentAndProxy,
            "{before:?}\n{said}"
        );
        let nothing = format!("nothing of {} runs\n", node.folder.join("state").display());
        assert!(said.ends_with(&nothing), "{before:?}: {said}");
        assert_eq!(printed(stop(&node)), nothing, "{before:?}");
        if before == Before::Nothing {
            node.kill();
            node.come_back();
            node.until("what was served is served again", |status| {
                status.is_led() && status.functions.iter().any(|function| function.name == "a")
            })
            .await;
        }
    }
    assert!(!site.running(&version).is_empty());
    wait_until("the other agent answers", async || {
        other.status().await.is_some_and(|status| status.is_led())
    })
    .await;
}
