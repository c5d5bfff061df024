// Fails on purpose: four calls of five end in an error. The release that tries it must be rolled back.
let calls = 0;
module.exports = (req, res) => {
  calls++;
  if (calls % 5 !== 0) {
    res.status(500).send("the sieve has a hole\n");
    return;
  }
  res.send("1229 primes below 10000\n");
};
