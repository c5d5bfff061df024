use crate::{HashFunction, desired::Protocol, health::Grain};

/// A kind of router. Who adds one says here what it can do, and the compiler names every other place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum RouterKind {
    /// The proxy beside an agent.
    #[default]
    Embedded,
    Nginx,
    Haproxy,
    Traefik,
    /// Whatever an address of its operator's answers for.
    Custom,
    /// An Application Load Balancer of AWS's.
    AwsAlb,
}

/// What a kind of router can do with calls. Tests try each, and compare the table in `docs/routers.md` with what they find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterAbilities {
    /// Those of the calls that it splits.
    pub protocols: &'static [Protocol],
    /// Those by which it draws users, the usual one first. None: in a way of its own, that no other router shares.
    pub hashes: &'static [HashFunction],
    pub sticky: StickyAbilities,
    /// A header can ask for a variation.
    pub rule: bool,
    /// Several services can share a port, by the hosts and paths of their calls.
    pub routes: bool,
    pub flows: FlowAbilities,
    /// It tells how many connections a variation has, so that the end of a drain is seen and not only waited for.
    pub counts_connections: bool,
    pub measured: MeasuredBy,
    /// Those of its calls that are counted.
    pub counted: &'static [Protocol],
    /// What it takes out and gives back without a reload, so that the health of targets never costs one; but for these protocols.
    pub grain: Grain,
    /// Of which a change of shares alone has it load its configuration again.
    pub reloads_for: &'static [Protocol],
}

/// What it can do with connections and flows without looking into them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowAbilities {
    /// TLS passes unopened, to the service whose host the caller names.
    pub pass_through: bool,
    /// A PROXY header tells targets who calls.
    pub proxy_protocol: bool,
    /// A service says how long they may stay with a variation that gets none any more.
    pub drain: bool,
}

impl FlowAbilities {
    const NONE: Self = Self { pass_through: false, proxy_protocol: false, drain: false };
}

/// By what it can keep calls with one variation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a table of what can be done")]
pub struct StickyAbilities {
    pub cookie: bool,
    pub header: bool,
    pub address: bool,
}

/// From what its calls are counted, by variation and split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredBy {
    /// It counts them itself, with times in microseconds.
    Counters,
    /// From the lines that it logs, with times in milliseconds.
    Log,
    /// It is asked how many calls have ended how; there are no times.
    Totals,
    /// They aren't.
    Nothing,
}

impl RouterKind {
    pub const ALL: [Self; 6] =
        [Self::Embedded, Self::Nginx, Self::Haproxy, Self::Traefik, Self::Custom, Self::AwsAlb];

    /// As it is written in configurations, and told to managers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Traefik => "traefik",
            Self::Custom => "custom",
            Self::AwsAlb => "aws_alb",
        }
    }

    /// The kind of this name; none: nobody here knows it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// As it is called in sentences.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Embedded => "the proxy",
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Traefik => "Traefik",
            Self::Custom => "the webhook",
            Self::AwsAlb => "the AWS ALB",
        }
    }

    #[must_use]
    pub const fn abilities(self) -> &'static RouterAbilities {
        const STICKY: StickyAbilities = StickyAbilities { cookie: true, header: true, address: true };
        match self {
            Self::Embedded => &RouterAbilities {
                protocols: &Protocol::ALL,
                hashes: &[HashFunction::Murmur2, HashFunction::Xxh32],
                sticky: STICKY,
                rule: true,
                routes: false,
                flows: FlowAbilities { pass_through: true, proxy_protocol: true, drain: true },
                counts_connections: true,
                measured: MeasuredBy::Counters,
                counted: &Protocol::ALL,
                grain: Grain::Target,
                reloads_for: &[],
            },
            // Where datagrams were refused its log doesn't tell.
            Self::Nginx => &RouterAbilities {
                protocols: &Protocol::ALL,
                hashes: &[HashFunction::Murmur2],
                sticky: STICKY,
                rule: true,
                routes: true,
                flows: FlowAbilities::NONE,
                counts_connections: true,
                measured: MeasuredBy::Log,
                counted: &[Protocol::Http, Protocol::Tcp],
                grain: Grain::Variation,
                reloads_for: &[Protocol::Tcp, Protocol::Udp],
            },
            Self::Haproxy => &RouterAbilities {
                protocols: &[Protocol::Http, Protocol::Https, Protocol::Tcp],
                hashes: &[HashFunction::Xxh32],
                sticky: STICKY,
                rule: true,
                routes: false,
                flows: FlowAbilities::NONE,
                counts_connections: true,
                measured: MeasuredBy::Log,
                counted: &[Protocol::Http, Protocol::Tcp],
                grain: Grain::Variation,
                reloads_for: &[],
            },
            // It draws users by itself, and keeps them by the cookie that it gives.
            Self::Traefik => &RouterAbilities {
                protocols: &Protocol::ALL,
                hashes: &[],
                sticky: StickyAbilities { cookie: true, header: false, address: false },
                rule: true,
                routes: true,
                flows: FlowAbilities::NONE,
                counts_connections: false,
                measured: MeasuredBy::Totals,
                counted: &[Protocol::Http],
                grain: Grain::Variation,
                reloads_for: &[],
            },
            // Who answers the webhook refuses what it can't do.
            Self::Custom => &RouterAbilities {
                protocols: &Protocol::ALL,
                hashes: &HashFunction::ALL,
                sticky: STICKY,
                rule: true,
                routes: true,
                flows: FlowAbilities::NONE,
                counts_connections: true,
                measured: MeasuredBy::Totals,
                counted: &Protocol::ALL,
                grain: Grain::Variation,
                reloads_for: &[],
            },
            // Its cookie has a name of its own.
            Self::AwsAlb => &RouterAbilities {
                protocols: &[Protocol::Http, Protocol::Https],
                hashes: &[],
                sticky: StickyAbilities { cookie: true, header: false, address: false },
                rule: true,
                routes: true,
                flows: FlowAbilities::NONE,
                counts_connections: false,
                measured: MeasuredBy::Nothing,
                counted: &[],
                grain: Grain::Variation,
                reloads_for: &[],
            },
        }
    }
}

impl MeasuredBy {
    /// What times are whole steps of, in microseconds: versions that differ by less can't be told apart.
    #[must_use]
    pub const fn clock_step_us(self) -> u32 {
        match self {
            Self::Counters => 1,
            Self::Log | Self::Totals | Self::Nothing => 1_000,
        }
    }

    /// Whether it is known how long calls took.
    #[must_use]
    pub const fn has_times(self) -> bool {
        matches!(self, Self::Counters | Self::Log)
    }
}
