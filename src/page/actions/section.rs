//! The forms, each with what it would do. What can't be done now has the reason beside it instead.

use maud::{Markup, html};

use super::Again;
use crate::{
    api::Api,
    fault::Fault,
    layout::{self, sentence},
    places, text,
    visit::Visit,
};
use protocol::api::{ReleaseAction, ReleaseActions};

/// Most characters of a note that the API takes.
const MAX_NOTE: u32 = 1_000;

/// Most lines of what is given back that are seen at once.
const MAX_KEPT_LINES: usize = 28;

/// Reads what can be done to a release.
pub async fn read(api: &Api<'_>, id: &str) -> Result<ReleaseActions, Fault> {
    api.get(&path(id)).await
}

/// The same of one action alone, for which not all children need to be looked at.
pub async fn read_one(api: &Api<'_>, id: &str, action: &str) -> Result<ReleaseActions, Fault> {
    api.get(&format!("{}?action={action}", path(id))).await
}

fn path(id: &str) -> String {
    format!("/api/v1/releases/{}/actions", places::escaped(id))
}

/// What was done, in words; what is no name of it is nothing.
pub fn done(name: Option<&str>) -> Option<&'static str> {
    let name = name?;
    text::actions::ALL.iter().find(|(known, ..)| *known == name).map(|(.., said)| *said)
}

/// What a release's page says of actions.
#[derive(Debug)]
pub struct Section<'a> {
    pub visit: &'a Visit,
    pub found: &'a ReleaseActions,
    /// Above so many agents an abort asks for the id.
    pub confirm_abort_above: u32,
    /// What was tried and not done.
    pub again: Option<&'a Again>,
    pub done: Option<&'static str>,
}

impl Section<'_> {
    pub fn markup(&self) -> Markup {
        let is_reader = !self.found.actions.iter().any(|action| action.allowed);
        html! {
            @if let Some(done) = self.done { p #done .done role="status" { (done) } }
            @if !is_reader {
                section #actions aria-labelledby="actions-title" {
                    h2 #actions-title { (text::ACTIONS) }
                    @if let Some(again) = self.again { p.fault role="alert" { (again.fault.detail) } }
                    ul.actions {
                        @for (at, action) in self.allowed().filter(|(_, action)| action.why.is_none()) {
                            li id={ "action-" (at) } { (self.possible(at, action)) }
                        }
                    }
                    ul.actions.not-now {
                        @for (at, action) in self.allowed() {
                            @if let Some(why) = &action.why {
                                li id={ "action-" (at) } { (self.impossible(action, why)) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// What the caller may do at all, numbered as in the answer.
    fn allowed(&self) -> impl Iterator<Item = (usize, &ReleaseAction)> {
        self.found.actions.iter().enumerate().filter(|(_, action)| action.allowed)
    }

    fn again(&self, action: &ReleaseAction) -> Option<&Again> {
        self.again.filter(|again| again.is_of(action))
    }

    fn possible(&self, at: usize, action: &ReleaseAction) -> Markup {
        let again = self.again(action);
        html! {
            details open[again.is_some()] {
                summary { (label(action)) }
                p #{ "does-" (at) } { (sentence(&action.does)) }
                (self.form(at, action, again))
            }
        }
    }

    fn impossible(&self, action: &ReleaseAction, why: &str) -> Markup {
        html! {
            p { strong { (label(action)) } ": " (sentence(why)) }
            // What was written isn't lost where it can't be done any more.
            @if let Some(again) = self.again(action) { (kept(&again.form.note)) }
        }
    }

    fn form(&self, at: usize, action: &ReleaseAction, again: Option<&Again>) -> Markup {
        let note = again.map_or("", |again| again.form.note.as_str());
        let path = format!("{}/{}", places::release(&self.found.id), action.action);
        let asks = asks_for_id(action, self.confirm_abort_above);
        let called = match action.to.as_deref() {
            Some("gate") => "promote-gate",
            Some(_) | None => action.action.as_str(),
        };
        html! {
            form.action method="post" action=(path) data-action=(called) aria-describedby={ "does-" (at) } {
                (fields(self.visit, self.found, &format!("note-{at}"), note))
                @if let Some(stage) = &action.stage { input type="hidden" name="stage" value=(stage); }
                @if let Some(to) = &action.to { input type="hidden" name="to" value=(to); }
                @if asks {
                    label for={ "typed-" (at) } { (text::TYPE_ID) " " bdi { (self.found.id) } }
                    input id={ "typed-" (at) } type="text" name="typed" required autocomplete="off" autocapitalize="off" spellcheck="false";
                }
                button type="submit" { (label(action)) }
            }
        }
    }
}

/// What every form of a release has: the proof, the tag of the release as it is shown, and a note, which may be wanted. `id`: the note's.
pub fn fields(visit: &Visit, found: &ReleaseActions, id: &str, note: &str) -> Markup {
    let is_wanted = found.note_required;
    html! {
        (layout::proof(visit))
        input type="hidden" name="tag" value=(found.tag);
        label for=(id) { @if is_wanted { (text::NOTE_REQUIRED) } @else { (text::NOTE) } }
        textarea id=(id) name="note" rows="2" maxlength=(MAX_NOTE) required[is_wanted] { "\n" (note) }
    }
}

/// What somebody wrote and that was not used.
pub fn kept(written: &str) -> Markup {
    let lines = written.lines().count().clamp(2, MAX_KEPT_LINES);
    html! {
        @if !written.is_empty() {
            label for="kept" { (text::KEPT) }
            textarea #kept rows=(lines) readonly { "\n" (written) }
        }
    }
}

/// Whether so much hangs on an action that the id is to be typed.
pub fn asks_for_id(action: &ReleaseAction, above: u32) -> bool {
    action.action == "abort" && action.agents > above
}

fn label(action: &ReleaseAction) -> Markup {
    let called = text::actions::ALL.iter().find(|(known, ..)| *known == action.action);
    html! {
        @if let Some(stage) = &action.stage { (text::SKIP_STAGE) " " bdi { (stage) } }
        @else if action.to.as_deref() == Some("gate") { (text::PROMOTE_TO_GATE) }
        @else if action.to.is_some() { (text::PROMOTE_ALL) }
        @else { (called.map_or(action.action.as_str(), |(_, called, _)| called)) }
    }
}
