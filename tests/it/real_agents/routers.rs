//! Routers of own agents, each with its proxy, and what is released at them.

use std::net::SocketAddr;

use super::{node::Node, site::Site, users::Backend};
use crate::ports::free_port;

/// A manager, routers with a name each behind one port at addresses of their own, and two variations.
pub struct Routers {
    pub site: Site,
    pub nodes: Vec<Node>,
    pub at: Vec<SocketAddr>,
    pub a: Backend,
    pub b: Backend,
}

impl Routers {
    /// So many. `set`: of the manager, as `KEY=VALUE`.
    pub async fn start(number: u8, set: &[String]) -> Self {
        let site = Site::with(set).await;
        let port = free_port();
        let at: Vec<_> = (1..=number).map(|place| SocketAddr::from(([127, 0, 5, place], port))).collect();
        let start = |(place, at): (usize, &SocketAddr)| {
            Node::router(site.folder(), &format!("router-{}", place + 1), &site.manager.url(), *at)
        };
        let nodes: Vec<Node> = at.iter().enumerate().map(start).collect();
        for node in &nodes {
            node.until_it_answers().await;
        }
        site.manager.knows(nodes.len()).await;
        Self { site, nodes, at, a: Backend::start('A'), b: Backend::start('B') }
    }

    /// A release of A and B at all of them.
    pub fn strategy(&self, id: &str, rest: &str) -> String {
        strategy(id, self.at[0].port(), [("A", self.a.at), ("B", self.b.at)], rest)
    }

    pub async fn submit(&self, id: &str, rest: &str) {
        self.site.manager.submit(&self.strategy(id, rest)).await;
    }

    /// Waits until all of them give B so much, in units of 0.01 %.
    pub async fn all_give(&self, of_b: u16) {
        for node in &self.nodes {
            node.until(&format!("it gives {of_b} to B"), |status| {
                let service = status.services.first();
                service.is_some_and(|service| service.variations[1].share == of_b)
            })
            .await;
            // What the agent wants is one thing, and what its proxy does another.
            node.until_proxy(&format!("its table gives {of_b} to B"), |status| {
                let service = status.services.iter().find(|service| service.name == SERVICE);
                service.is_some_and(|service| {
                    let b = service.variations.iter().find(|variation| variation.name == "B");
                    b.map_or(0, |b| b.share) == of_b
                })
            })
            .await;
        }
    }
}

const SERVICE: &str = "checkout";

/// A release of a service with two variations at a port. `rest`: further keys, its stages among them.
pub fn strategy(id: &str, port: u16, variations: [(&str, SocketAddr); 2], rest: &str) -> String {
    format!("id: {id}\nname: {id}\n{}{rest}", service(port, variations))
}

/// The part of a strategy that names the service.
pub fn service(port: u16, [stable, new]: [(&str, SocketAddr); 2]) -> String {
    format!(
        r#"services:
  - name: {SERVICE}
    routers: {{labels: {{env: prod}}}}
    ports: [{{port: {port}}}]
    sticky: {{header: X-User}}
    variations:
      - {{name: {}, targets: ["{}"]}}
      - {{name: {}, targets: ["{}"]}}
"#,
        stable.0, stable.1, new.0, new.1
    )
}

/// Everything to what is stable and called so, which is there before any other.
pub fn all_to(stable: &str) -> String {
    format!(
        "stages:\n  - name: as it is\n    type: Traffic\n    shares: {{{stable}: 100}}\n    end_action: {{onSuccess: rollback}}\n"
    )
}

/// `10 %`, then `50 %`, each as long as this.
pub fn two_stages(duration: &str) -> String {
    let stages = [stage("little", 10, duration, "half"), stage("half", 50, duration, "rollout")];
    format!("stages:\n{}", stages.concat())
}

/// `10 %`, `50 %` and all of it, the latter two once somebody approves of them: each lasts until the test has seen what it wants to see.
/// `rollout`: what else is said of that, each key with a comma behind it.
pub fn approved_stages(rollout: &str) -> String {
    let shares = [
        stage("little", 10, "100ms", "half"),
        stage("half", 50, "100ms", "all"),
        stage("all", 100, "100ms", "rollout"),
    ];
    format!("rollout: {{{rollout}approval: {{stages: [half, all]}}}}\nstages:\n{}", shares.concat())
}

/// Waits for its signal, and has so much of B, in percent.
pub fn stage(name: &str, of_b: u8, duration: &str, next: &str) -> String {
    let of_a = 100 - of_b;
    format!(
        "  - name: {name}\n    type: WaitForSignal\n    shares: {{A: {of_a}, B: {of_b}}}\n    metrics_conditions: [{{name: errorRate, \
         threshold: \"<0.02\"}}]\n    end_conditions: [{{name: minDuration, threshold: {duration}}}, {{name: minCalls, threshold: \
         \"50\"}}]\n    end_action: {{onSuccess: {next}, onFailure: rollback}}\n"
    )
}
