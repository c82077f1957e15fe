"""Policy gradients: REINFORCE on an LSTM that emits one choice after another."""
