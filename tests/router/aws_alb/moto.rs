//! One moto for all tests of a process: `stricter_moto.py` beside this file.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
};

use aws_config::{BehaviorVersion, Region};
use aws_sdk_elasticloadbalancingv2::{Client, config::Credentials};
use serde_json::{Value, json};

use crate::world::place::at;

pub const REGION: &str = "eu-west-1";

/// It ends with this process, which holds its input.
pub struct Moto {
    pub at: SocketAddr,
    _process: Child,
    talk: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

pub static MOTO: LazyLock<Moto> = LazyLock::new(Moto::start);

impl Moto {
    fn start() -> Self {
        let python = std::env::var_os("CHOIRMASTER_TEST_MOTO");
        let python = python.expect("CHOIRMASTER_TEST_MOTO is set by tests/run, which gets moto");
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/router/aws_alb/stricter_moto.py");
        let mut command = Command::new(python);
        command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let port = line(&mut output)["port"].as_u64().unwrap();
        Self { at: at(u16::try_from(port).unwrap()), _process: child, talk: Mutex::new((input, output)) }
    }

    /// Makes a load balancer with listeners, each with a protocol. Gives its ARN.
    pub fn load_balancer(&self, name: &str, listeners: &[(u16, &str)]) -> String {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(talk.0, "{}", json!({"name": name, "listeners": listeners})).unwrap();
        line(&mut talk.1)["arn"].as_str().unwrap().to_owned()
    }

    /// As its operator calls it.
    pub fn client(&self) -> Client {
        let config = aws_sdk_elasticloadbalancingv2::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(Credentials::new("operator", "operator", None, None, "the tests"))
            .endpoint_url(format!("http://{}", self.at))
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        Client::from_conf(config.build())
    }
}

fn line(output: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}
