//! Where people reach the manager's page.

use super::{complaint, load, value};

#[test]
fn the_address_of_the_page_is_one_or_none() {
    for right in [
        "",
        "https://choir.example",
        "https://choir.example:8443/choir",
        "http://127.0.0.1:8080",
        "http://localhost",
        "https://[2001:db8::1]:8080/a%20b",
    ] {
        let config = load(&format!("http: {{public_url: '{right}'}}\n"), &[], &[]).unwrap();
        assert_eq!(value(&config, "http.public_url"), right);
    }
    assert_eq!(value(&load("", &[], &[]).unwrap(), "http.public_url"), "");
    let long = format!("https://choir.example/{}", "a".repeat(500));
    for wrong in [
        "choir.example",
        "http://choir.example",
        "ftp://choir.example",
        "javascript:alert(1)",
        "https://",
        "https://user:word@choir.example",
        "https://choir.example:0",
        "https://choir.example:99999",
        "https://choir.example/?a=b",
        "https://choir.example/#a",
        "https://choir.example/<b>",
        "https://[::1",
        "https://a b",
        long.as_str(),
    ] {
        let said = complaint(&format!("http: {{public_url: '{wrong}'}}\n"), &[], &[]);
        assert!(said.contains("http.public_url") && said.contains("the address "), "{wrong}: {said}");
    }
}
