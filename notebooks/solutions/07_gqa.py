# %% 07a
answer = 19 * 4  # S / (S + G) = 0.95 solved for S is 19 G

kb.check_answer("07a", answer)

# %% 07b
answer = 19 * 16

kb.check_answer("07b", answer)
