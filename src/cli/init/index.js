// Carries out each call of /@NAME@. The body comes as text in req.body; res has what functions use of express: status, send, json, set.
module.exports = (req, res) => {
  const name = (req.body || "").trim() || "world";
  res.send(`Hello, ${name}!@MORE@\n`);
};
