//! The functions that real agents run, and the releases of them.

use std::fmt::Write as _;

use reqwest::Method;

/// A function, and what its versions answer.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub name: &'static str,
    /// The form that it has; where the machine can't run it, neither can an agent.
    pub env: &'static str,
    /// What the form needs, in words.
    pub needs: &'static str,
    /// Folders of the version that is served first, and of the one that is released.
    pub base: &'static str,
    pub new: &'static str,
    /// What each call of it is.
    pub body: &'static str,
    /// What the two versions answer. Everything else is a lost call.
    pub answers: [&'static str; 2],
}

impl Function {
    /// Calls of all but the sieve change something, as far as a proxy can know.
    pub fn method(&self) -> Method {
        if self.body.is_empty() { Method::GET } else { Method::POST }
    }
}

/// The last one needs nothing but a shell, so that there is one for the bad release everywhere.
pub const FUNCTIONS: [Function; 3] = [
    Function {
        name: "sieve",
        env: "nodejs",
        needs: "node",
        base: "fns/sieve_base",
        new: "fns/sieve_new",
        body: "",
        answers: ["1229 primes below 10000\n", "1229 primes below 10000\n"],
    },
    Function {
        name: "greet",
        env: "python",
        needs: "python3",
        base: "fns/greet_base",
        new: "fns/greet_new",
        body: "Ada",
        answers: ["Hello, Ada!\n", "Hello, Ada! Your name has 3 letters.\n"],
    },
    Function {
        name: "shout",
        env: "binary",
        needs: "sh",
        base: "fns/shout_base",
        new: "fns/shout_new",
        body: "hello\n",
        answers: ["HELLO\n", "HELLO!\n"],
    },
];

/// The version of `shout` that answers nothing but errors.
const BROKEN: &str = "fns/shout_broken";

/// A release of real functions.
#[derive(Debug)]
pub struct OwnRelease {
    pub id: &'static str,
    pub story: &'static str,
    pub is_good: bool,
    pub text: String,
    /// Those that it is of.
    pub functions: Vec<&'static str>,
}

/// How many releases there are.
pub const RELEASES: usize = 2;

/// One of all functions, which is good, and one of the last of them, which is bad at its first 10 %.
pub fn releases(functions: &[Function]) -> [OwnRelease; RELEASES] {
    let good = functions.iter().map(|function| (*function, function.base, function.new)).collect::<Vec<_>>();
    let bad =
        functions.last().map(|function| (*function, function.new, BROKEN)).into_iter().collect::<Vec<_>>();
    let names = |of: &[(Function, &str, &str)]| of.iter().map(|(function, ..)| function.name).collect();
    [
        OwnRelease {
            id: "own-good",
            story: "10 %, then 50 % of the calls, then all",
            is_good: true,
            text: strategy("own-good", &good, &[10, 50]),
            functions: names(&good),
        },
        OwnRelease {
            id: "own-bad",
            story: "answers errors alone at 10 % (it must fail)",
            is_good: false,
            text: strategy("own-bad", &bad, &[10]),
            functions: names(&bad),
        },
    ]
}

/// A release that gives each function its shares, one function after the other.
fn strategy(id: &str, functions: &[(Function, &str, &str)], shares: &[u8]) -> String {
    let mut text = format!("id: {id}\nname: {id}\ntype: minor\nfunctions:\n");
    for (Function { name, env, .. }, base, new) in functions {
        let _ = write!(
            text,
            "  - name: {name}\n    retry: failed\n    base_version: {{path: {base}, env: {env}}}\n    \
             new_version: {{path: {new}, env: {env}}}\n"
        );
    }
    text.push_str("stages:\n");
    let stages: Vec<_> = functions
        .iter()
        .flat_map(|(function, ..)| shares.iter().map(|share| (function.name, *share)))
        .collect();
    for (number, (function, share)) in stages.iter().enumerate() {
        let next = match stages.get(number + 1) {
            Some((function, share)) => stage_name(function, *share),
            None => "rollout".to_owned(),
        };
        text.push_str(&stage(function, *share, &next));
    }
    text + "rollback:\n  action:\n    function: base_version\n"
}

fn stage_name(function: &str, share: u8) -> String {
    format!("{function} {share} percent")
}

fn stage(function: &str, share: u8, next: &str) -> String {
    format!(
        "  - name: {name}\n    type: WaitForSignal\n    func_name: {function}\n    variants:\n      \
         - {{name: base_version, trafficPercentage: {base}}}\n      \
         - {{name: new_version, trafficPercentage: {share}}}\n    metrics_conditions:\n      \
         - {{name: errorRate, threshold: \"<0.05\"}}\n      \
         - {{name: responseTime, threshold: \"<=1000\", compareWith: Median}}\n    end_conditions:\n      \
         - {{name: minDuration, threshold: 1s}}\n      - {{name: minCalls, threshold: \"10\"}}\n    \
         end_action: {{onSuccess: {next}, onFailure: rollback}}\n",
        name = stage_name(function, share),
        base = 100 - share,
    )
}
