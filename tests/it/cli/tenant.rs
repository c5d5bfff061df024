//! `choirmaster tenant …`, and the other commands with a tenant's token.

use choirmaster::app::Options;
use http_api::auth::{Grant, OperatorToken, Token};
use model::{Role, TenantName};

use super::program;
use crate::world::World;

fn tokens(options: &mut Options) {
    let grant = Grant { tenant: Some(TenantName::parse("acme").unwrap()), roles: vec![Role::Viewer] };
    let viewer = OperatorToken { name: "vic".into(), token: Token::new("secret-of-acme-vic"), grant };
    options.auth.operators = vec![OperatorToken::new("root", "secret-of-the-manager"), viewer];
    options.auth.operator_required = true;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_cared_for_from_the_command_line() {
    let world = World::with(tokens).await;
    let folder = tempfile::tempdir().unwrap();
    let mut seen = String::new();
    for (token, line) in [
        ("secret-of-the-manager", "tenant list"),
        ("secret-of-the-manager", "tenant create acme --max-releases 20"),
        ("secret-of-the-manager", "tenant create acme"),
        ("secret-of-the-manager", "tenant limit acme --max-children 5"),
        ("secret-of-acme-vic", "tenant show acme"),
        ("secret-of-acme-vic", "tenant show umbra"),
        ("secret-of-acme-vic", "tenant create umbra"),
        ("secret-of-acme-vic", "release list"),
        ("secret-of-acme-vic", "release abort none"),
        ("secret-of-the-manager", "tenant delete acme"),
        ("secret-of-acme-vic", "release list"),
    ] {
        let mut command = program(folder.path());
        command.args(line.split(' ')).env("CHOIRMASTER_URL", format!("http://{}", world.manager.address));
        command.env("CHOIRMASTER_TOKEN", token);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        let said: Vec<&str> =
            said.lines().filter(|line| !line.trim_start().starts_with("created ")).collect();
        seen += &format!("$ {line}\n{}\n({})\n", said.join("\n"), output.status.code().unwrap());
    }
    insta::assert_snapshot!(seen, @r#"
    $ tenant list
    there are no tenants
    (0)
    $ tenant create acme --max-releases 20
    acme: created
    Its tokens: NAME TOKEN tenant=acme roles=viewer,operator,approver
    Its children: choirmaster children label CHILD tenant=acme
    (0)
    $ tenant create acme
    error: the name acme was given; choose another
    (1)
    $ tenant limit acme --max-children 5
    acme: at most 5 children, 20 unfinished releases, 1073741824 bytes
    (0)
    $ tenant show acme
    acme
      id         58c5620e-6883-53d8-aac2-ee495bfa2d22
      children   0 of 5
      releases   0 of 20 unfinished
      bytes      0 of 1073741824
      users      acme/vic
    (0)
    $ tenant show umbra
    error: tenant umbra is not known
    (1)
    $ tenant create umbra
    error: this is about the whole manager, and takes a token that is bound to no tenant
    With another token it may be done: name its file with --token-file.
    (1)
    $ release list
    no releases
    (0)
    $ release abort none
    error: this takes the role operator; the token vic has viewer
    With another token it may be done: name its file with --token-file.
    (1)
    $ tenant delete acme
    acme: deleted
    (0)
    $ release list
    error: the token is bound to the tenant acme, which is not there
    With another token it may be done: name its file with --token-file.
    (1)
    "#);
    world.stop().await;
}
