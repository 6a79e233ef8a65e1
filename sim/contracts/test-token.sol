// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// An ERC-20 with the habits that have cost people money: like Ethereum's USDT its `transfer` returns nothing (or a bool,
/// when asked), listed addresses make it revert for ever, and it can be told to lie: answer false, with status 1 and no log.
contract TestToken {
    string public name;
    string public symbol;
    uint8 public immutable decimals;
    address public immutable owner = msg.sender;

    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => bool) public blacklisted;
    bool public returnsBool;
    bool public lies;
    bool public strictAllowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        name = name_;
        symbol = symbol_;
        decimals = decimals_;
    }

    modifier onlyOwner() {
        require(msg.sender == owner, "not the owner");
        _;
    }

    function mint(address to, uint256 value) external onlyOwner {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function blacklist(address who, bool listed) external onlyOwner {
        blacklisted[who] = listed;
    }

    function setReturnsBool(bool yes) external onlyOwner {
        returnsBool = yes;
    }

    function setLies(bool yes) external onlyOwner {
        lies = yes;
    }

    /// As USDT: what is allowed changes from 0 or to 0 only.
    function setStrictAllowance(bool yes) external onlyOwner {
        strictAllowance = yes;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        require(!strictAllowance || value == 0 || allowance[msg.sender][spender] == 0, "first to 0");
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return finish(move(msg.sender, to, value));
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(allowed >= value, "allowance too small");
        allowance[from][msg.sender] = allowed - value;
        return finish(move(from, to, value));
    }

    function move(address from, address to, uint256 value) private returns (bool) {
        require(!blacklisted[from] && !blacklisted[to], "blacklisted");
        if (lies) return false;
        require(balanceOf[from] >= value, "balance too small");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
        return true;
    }

    /// A lie must be told as false; a truth is told as nothing, unless the token was set to return a bool.
    function finish(bool moved) private view returns (bool) {
        if (moved && !returnsBool) {
            assembly {
                return(0, 0)
            }
        }
        return moved;
    }
}
