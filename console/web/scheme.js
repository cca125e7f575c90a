// Applies the chosen color scheme before the first paint. Without a choice, the one of the system applies.
(() => {
  const chosen = localStorage.getItem("orcas.scheme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.scheme = chosen;
})();
