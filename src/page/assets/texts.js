// What scripts say, as the page has it: all that can be read comes from the server.
export const texts = JSON.parse(document.body.dataset.texts);
