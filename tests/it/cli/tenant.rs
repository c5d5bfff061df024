//! `choirmaster tenant …`, and the other commands with a tenant's token.

use choirmaster::app::Options;
use http::auth::{Grant, OperatorToken, Token};
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
    insta::assert_snapshot!(seen, @"");
    world.stop().await;
}
