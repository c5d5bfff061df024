//! What all pages have around their middle.

use maud::{DOCTYPE, Markup, html};

use crate::{
    ROOT, assets, places, text,
    visit::{Scheme, Visit},
};

/// What a page says of itself.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    pub title: &'a str,
    /// Which part of the navigation it belongs to.
    pub part: Option<Part>,
    /// Which events make it old; `None`: it says nothing that changes.
    pub live: Option<Live<'a>>,
}

/// From where in the audit trail a page goes on to listen.
#[derive(Debug, Clone)]
pub struct Live<'a> {
    /// The end of the trail before the page was made.
    pub after: String,
    /// Of this release alone.
    pub release: Option<&'a str>,
    /// Whether it says how long something still lasts, and so gets old by itself.
    pub ticks: bool,
}

/// A part of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Releases,
    Children,
    Tree,
    Services,
    Routers,
    New,
    Map,
}

impl Part {
    const ALL: [Self; 7] =
        [Self::Releases, Self::Map, Self::Children, Self::Tree, Self::Services, Self::Routers, Self::New];

    const fn label(self) -> &'static str {
        match self {
            Self::Releases => text::RELEASES,
            Self::New => text::NEW_RELEASE,
            Self::Children => text::CHILDREN,
            Self::Tree => text::TREE,
            Self::Services => text::SERVICES,
            Self::Routers => text::ROUTERS,
            Self::Map => text::map::MAP,
        }
    }

    fn path(self) -> String {
        match self {
            Self::Releases => places::releases(),
            Self::New => places::new_release(),
            Self::Children => places::children(),
            Self::Tree => places::TREE.to_owned(),
            Self::Services => places::SERVICES.to_owned(),
            Self::Routers => places::ROUTERS.to_owned(),
            Self::Map => places::map(),
        }
    }
}

impl<'a> Head<'a> {
    pub const fn plain(title: &'a str) -> Self {
        Self { title, part: None, live: None }
    }
}

/// A page. A script that asks for the middle alone gets that.
pub fn page(visit: &Visit, head: &Head<'_>, middle: &Markup) -> Markup {
    let middle = main(visit, head, middle);
    if visit.wants_middle {
        return middle;
    }
    document(
        visit.scheme,
        head.title,
        &html! {
            a.skip href="#main" { (text::SKIP) }
            header.top {
                a.brand href=(places::releases()) { (text::PRODUCT) }
                nav aria-label=(text::NAVIGATION) {
                    ul {
                        @for part in Part::ALL {
                            li { a href=(part.path()) aria-current=[(head.part == Some(part)).then_some("page")] { (part.label()) } }
                        }
                    }
                }
                p #live-state .live role="status" {}
                button #show-keys type="button" aria-haspopup="dialog" hidden { (text::KEYS) }
                (colours(visit))
                (who(visit))
            }
            (middle)
            div #given-back role="status" {}
            div #said .unseen role="status" aria-live="polite" {}
            (keys())
        },
    )
}

fn main(visit: &Visit, head: &Head<'_>, middle: &Markup) -> Markup {
    let live = head.live.as_ref();
    html! {
        main #main tabindex="-1"
            data-here=(visit.asked)
            data-after=[live.map(|live| live.after.as_str())]
            data-release=[live.and_then(|live| live.release)]
            data-ticks=[live.filter(|live| live.ticks).map(|_| "yes")]
            data-now=(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
            { (middle) }
    }
}

fn document(scheme: Scheme, title: &str, body: &Markup) -> Markup {
    let forced = (scheme != Scheme::System).then(|| scheme.name());
    html! {
        (DOCTYPE)
        html lang="en" data-colours=[forced] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (text::PRODUCT) }
                link rel="stylesheet" href=(assets::path("style.css"));
                link rel="icon" type="image/svg+xml" href=(assets::path("icon.svg"));
                script type="module" src=(assets::path("page.js")) {}
            }
            body data-texts=(text::for_script()) { (body) }
        }
    }
}

/// What the keyboard does. A dialog that no script opens isn't there: without scripts there are no such keys.
fn keys() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { (text::KEYS) }
            dl { @for (key, does) in text::KEYS_DO { div { dt { kbd { (key) } } dd { (does) } } } }
            p { label for="keys-on" { input #keys-on type="checkbox" checked; " " (text::KEYS_ON) } }
            form method="dialog" { button type="submit" { (text::CLOSE) } }
        }
    }
}

/// Works without a script; the choice is kept in a cookie.
fn colours(visit: &Visit) -> Markup {
    html! {
        form.colours method="post" action={ (ROOT) "/colours" } {
            input type="hidden" name="next" value=(visit.asked);
            label for="colours" { (text::COLOURS) }
            select #colours name="colours" {
                @for scheme in Scheme::ALL {
                    option value=(scheme.name()) selected[scheme == visit.scheme] { (text::scheme(scheme)) }
                }
            }
            button type="submit" { (text::APPLY) }
        }
    }
}

/// Where nobody has to sign in, whoever does acts under their name.
fn who(visit: &Visit) -> Markup {
    let (caller, has_operators) = (&visit.session.caller, visit.has_operators);
    html! {
        @if let Some(name) = &caller.name {
            form.who method="post" action={ (ROOT) "/sign-out" } {
                (proof(visit))
                span { bdi { (name) } @if let Some(tenant) = &caller.grant.tenant { " · " bdi { (tenant) } } }
                button type="submit" { (text::SIGN_OUT) }
            }
        } @else {
            p.who {
                (text::OPEN_TO_ALL)
                @if has_operators { " · " a href={ (ROOT) "/sign-in?next=" (places::escaped(&visit.asked)) } { (text::SIGN_IN) } }
            }
        }
    }
}

/// What every form that does something has: it shows that the form comes from a page of this session.
pub fn proof(visit: &Visit) -> Markup {
    html! { input type="hidden" name="proof" value=(visit.session.proof); }
}

/// A page for who has no session.
pub fn outside(title: &str, middle: &Markup) -> Markup {
    document(Scheme::System, title, &html! { main #main tabindex="-1" .outside { (middle) } })
}

/// `beside`: what else is to be kept for whoever signs in again.
pub fn session_over(asked: &str, beside: &Markup) -> Markup {
    outside(
        text::SESSION_OVER,
        &html! {
            h1 { (text::SESSION_OVER) }
            p role="alert" { (text::SESSION_OVER_DETAIL) }
            (beside)
            p { a href={ (ROOT) "/sign-in?next=" (places::escaped(asked)) } { (text::SIGN_IN) } }
        },
    )
}

/// A sentence of the API, which may hold names that others chose: marks of direction in them are spelt out, so that they turn round nothing
/// beside them.
pub fn sentence(text: &str) -> Markup {
    html! { bdi { (model::text::one_line(text)) } }
}

/// Goes on by itself to a page of this site.
pub fn onward(asked: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (places::onward(Some(asked))) };
                title { (text::PRODUCT) }
            }
            body { p { a href=(places::onward(Some(asked))) { (text::ONWARD) } } }
        }
    }
}
