//! A network of a test's own, in which it is root: rules of nftables hold for a whole network, and those of the machine are nobody's to change
//! who tests. In it there is the loopback interface alone.

use std::process::{Command, Stdio};

/// Whoever tells a story has this in the environment.
pub const WITHIN: &str = "CHOIRMASTER_TEST_OWN_NETWORK";

/// Has a story told, which is a test of this program that is ignored elsewhere, and starts this program once more. `stderr`: where it
/// says what it has to say.
pub fn in_a_network_of_its_own(story: &str, stderr: Stdio) {
    let tried = within("nft list ruleset").output().unwrap();
    assert!(
        tried.status.success(),
        "no network of its own, with nft in it, can be had here (unshare --map-root-user --net): {}",
        String::from_utf8_lossy(&tried.stderr).lines().next().unwrap_or("it says nothing")
    );
    let mut command = within("exec \"$@\"");
    command.arg(std::env::current_exe().unwrap());
    command.args([story, "--exact", "--ignored", "--nocapture"]);
    let told = command.env(WITHIN, "yes").stderr(stderr).output().unwrap();
    let said = [told.stdout, told.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(told.status.success() && said.contains("1 passed"), "{said}");
}

/// A shell that does this there.
fn within(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--", "sh", "-c"]);
    command.args([&format!("ip link set lo up && {script}"), "sh"]);
    command
}

/// All rules of this network.
pub fn rules() -> String {
    let listed = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout).unwrap()
}
