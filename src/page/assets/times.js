// Times in the zone of whoever looks, with how long ago that is by the server's clock: the viewer's may be hours off.

const STEPS = [[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [Infinity, "year"]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

// Today's times go without the day.
function exact(time) {
  const date = day.format(time);
  return date === day.format(serverNow()) ? clock.format(time) : `${date}, ${clock.format(time)}`;
}

// Server's time minus the viewer's, in milliseconds; known anew with each page.
let ahead = 0;

export function serverNow() {
  return Date.now() + ahead;
}

function readClock() {
  const said = Date.parse(document.querySelector("#main")?.dataset.now ?? "");
  if (!Number.isNaN(said)) ahead = said - Date.now();
}

function ago(time) {
  let span = (time - serverNow()) / 1000;
  for (const [size, unit] of STEPS) {
    if (Math.abs(span) < size) return relative.format(Math.round(span), unit);
    span /= size;
  }
  return "";
}

function tell(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const time = Date.parse(element.dateTime);
    if (Number.isNaN(time)) continue;
    const text = `${exact(time)}, ${ago(time)}`;
    if (element.textContent !== text) element.textContent = text;
  }
}

/** Shows the times below `root`, after a page or a part of one has come. */
export function tellTimes(root) {
  readClock();
  tell(root);
}

setInterval(() => tell(document), 10_000);
