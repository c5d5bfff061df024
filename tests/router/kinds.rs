use traffic::RouterKind;

#[test]
fn kinds_are_written_each_in_one_way() {
    assert_eq!(
        RouterKind::ALL.map(RouterKind::name),
        ["embedded", "nginx", "haproxy", "traefik", "custom", "aws_alb"]
    );
}
