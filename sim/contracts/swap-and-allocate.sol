// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Takes coin or a token, gives another token for it at a price that its owner moves, and shares that out in the same call: shares
/// are packed, 20 bytes of address and 2 of basis points each, 10,000 together. All or nothing: below the minimum output it
/// reverts, and then nothing moved and no event stands. What does not divide goes to the last share.
contract SwapAndAllocate {
    address public immutable owner = msg.sender;
    address public immutable tokenOut;
    /// Units of `tokenOut` for 10^18 units of what comes in.
    uint256 public price;

    event Swapped(bytes32 indexed ref, address indexed payer, uint256 amountIn, uint256 amountOut);
    event Allocated(bytes32 indexed ref, address indexed to, uint256 amountOut);

    constructor(address tokenOut_, uint256 price_) {
        tokenOut = tokenOut_;
        price = price_;
    }

    function setPrice(uint256 price_) external {
        require(msg.sender == owner, "not the owner");
        price = price_;
    }

    /// `tokenIn` zero: the value of the call is what comes in; else the caller must have approved this contract.
    function swapAndAllocate(
        bytes32 ref,
        address tokenIn,
        uint256 amountIn,
        uint256 minimumOut,
        bytes calldata shares
    ) external payable returns (uint256 amountOut) {
        if (tokenIn == address(0)) {
            require(msg.value == amountIn, "the value is not the amount");
        } else {
            require(msg.value == 0, "value beside a token");
            uint256 before = balanceOf(tokenIn);
            move(tokenIn, abi.encodeWithSignature("transferFrom(address,address,uint256)", msg.sender, address(this), amountIn));
            require(balanceOf(tokenIn) == before + amountIn, "it did not arrive");
        }
        amountOut = (amountIn * price) / 1e18;
        require(amountOut >= minimumOut, "output below minimum");
        allocate(ref, amountOut, shares);
        emit Swapped(ref, msg.sender, amountIn, amountOut);
    }

    function allocate(bytes32 ref, uint256 amountOut, bytes calldata shares) private {
        require(shares.length > 0 && shares.length % 22 == 0, "shares are 22 bytes each");
        uint256 basisPoints;
        uint256 left = amountOut;
        for (uint256 place = 0; place < shares.length; place += 22) {
            address to = address(bytes20(shares[place:place + 20]));
            uint256 part = uint16(bytes2(shares[place + 20:place + 22]));
            basisPoints += part;
            uint256 output = place + 22 == shares.length ? left : (amountOut * part) / 10_000;
            left -= output;
            move(tokenOut, abi.encodeWithSignature("transfer(address,uint256)", to, output));
            emit Allocated(ref, to, output);
        }
        require(basisPoints == 10_000, "shares do not make a whole");
    }

    /// What a token answers is not looked at: USDT says nothing on Ethereum and false on TRON.
    function move(address token, bytes memory data) private {
        (bool called, ) = token.call(data);
        require(called, "the token refused");
    }

    function balanceOf(address token) private view returns (uint256) {
        (bool called, bytes memory answer) = token.staticcall(abi.encodeWithSignature("balanceOf(address)", address(this)));
        require(called && answer.length == 32, "no token");
        return abi.decode(answer, (uint256));
    }
}
